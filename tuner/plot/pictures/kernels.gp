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
eval 'set xtics '.token_tics
# The same tics without words, for the panels that share the first one's axis.
bare = "('' 1"
do for [e = 1:7] { bare = bare.sprintf(", '' %g", 10 ** e) }
tuned_line = 'with lines linecolor rgb pale linewidth 6'
kernel_line = 'with linespoints linecolor rgb colour[k + 0] linewidth 1.3 pointtype 7 pointsize 0.35'
legend = "NaN @tuned_line title 'tuned choice', for [k = 1:words(kernels)] NaN @kernel_line title word(kernels, k)"
set multiplot
do for [i = 0:2] {
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
	if (has(i)) {
		plot rows index i using 1:2 @tuned_line, \
			for [k in shown] rows index 3 * k + i using 1:2 @kernel_line, \
			@legend
	} else {
		set label 3 'no such batches' at graph 0.5,0.5 center textcolor rgb faint
		plot @legend
	}
	unset label
}
unset multiplot
