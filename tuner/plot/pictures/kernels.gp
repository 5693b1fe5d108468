# SPDX-License-Identifier: Apache-2.0
# kernels.gp - latency against tokens: every kernel at its best, and the tuned choice.
array panel[3] = ['whole prompts', has(1) ? sprintf('mixed: %d to %d %% of sequences decode', share_lo, share_hi) : 'mixed', 'decode only']
set label 1 sprintf('Every kernel at its best on %s', device)
set label 2 sprintf('%s. Means over batches of like token count.', what)
array begin[3] = [tokens0_lo, tokens1_lo, tokens2_lo]
array end[3] = [tokens0_hi, tokens1_hi, tokens2_hi]
set logscale xy
set key maxrows 2
set yrange [us_lo / 1.5 : us_hi * 1.5]
eval 'set ytics '.time_tics(us_lo, us_hi)
# The same tics without words, for the panels that share the first one's axis.
bare = "('' 1"
do for [e = 1:7] { bare = bare.sprintf(", '' %g", 10 ** e) }
tuned_line = 'with lines linecolor rgb pale linewidth 6'
# Colours for what runs most batches; grey, and points of their own, for the others.
array often[8] = [colour[1], colour[3], colour[2], '#56b4e9', '#7a4b2a', '#5e3c99', '#117733', '#cc79a7']
most_often = num_often < 8 ? num_often : 8
array rare[9] = [4, 6, 8, 10, 12, 14, 1, 2, 3]
is_often(k) = k <= most_often
shade(k) = is_often(k) ? often[k] : grey
shape(k) = is_often(k) ? 7 : rare[1 + (k - most_often - 1) % 9]
kernel_line = 'with linespoints linecolor rgb shade(k) linewidth (is_often(k) ? 1.6 : 0.8) pointtype shape(k) pointsize (is_often(k) ? 0.45 : 0.7)'
shown_line = 'with linespoints linecolor rgb shade(k(j)) linewidth (is_often(k(j)) ? 1.6 : 0.8) pointtype shape(k(j)) pointsize (is_often(k(j)) ? 0.45 : 0.7)'
k(j) = word(shown, j) + 0
mean_bar = bar(1, 2, 3)
legend = "NaN @tuned_line title 'tuned choice', for [k = 1:words(kernels)] NaN @kernel_line title word(kernels, k)"
set multiplot
do for [i = 0:2] {
	eval 'set xtics '.token_tics(begin[i + 1], end[i + 1])
	set xrange [begin[i + 1] / 1.3 : end[i + 1] * 1.3]
	set lmargin at screen 0.07 + i * 0.31
	set rmargin at screen 0.07 + i * 0.31 + 0.29
	set bmargin at screen 0.14
	set tmargin at screen 0.72
	set title panel[i + 1] textcolor rgb ink offset 0,-0.5
	if (i == 0) { set ylabel 'time of one attention layer' } else { unset ylabel; unset key; eval 'set ytics '.bare.')' }
	if (i == 1) { set xlabel 'tokens in the batch, cached and new' textcolor rgb ink } else { unset xlabel }
	shown = ''
	do for [k = 1:words(kernels)] { if (has(3 * k + i)) { shown = shown.' '.k } }
	if (has(i) && shown eq '') { plot rows index i using 1:2 @tuned_line, @legend }
	if (has(i) && shown ne '') {
		plot rows index i using 1:2 @tuned_line, \
			for [j = 1:words(shown)] rows index 3 * k(j) + i @mean_bar linecolor rgb shade(k(j)), \
			for [j = 1:words(shown)] rows index 3 * k(j) + i using 1:2 @shown_line, \
			@legend
	}
	if (!has(i)) {
		set label 4 'no such batches' at graph 0.5,0.5 center textcolor rgb faint
		plot @legend
	}
	unset label
}
unset multiplot
