# SPDX-License-Identifier: Apache-2.0
# prefill.gp - what tuning does for prompts: one against its length, then all batches.
set label 1 sprintf('Prompts, tuned and untuned, on %s', device)
set label 2 'Untuned: the defaults of the kernels.'
set logscale xy
untuned_line = 'with linespoints linecolor rgb colour[1] linewidth 1.6 pointtype 7 pointsize 0.5'
tuned_line = 'with linespoints linecolor rgb blue linewidth 3 pointtype 7 pointsize 0.5'
whole_point = 'with points linecolor rgb blue pointtype 7 pointsize 0.5'
chunk_point = 'with points linecolor rgb grey pointtype 6 pointsize 0.5'
untuned_bar = bar(1, 2, 4)
tuned_bar = bar(1, 3, 5)
gain_bar = bar(1, 2, 3)
legend = "NaN @untuned_line title 'untuned', NaN @tuned_line title 'tuned choice', NaN @whole_point title 'whole prompts', NaN @chunk_point title 'with a context'"
set multiplot
set tmargin at screen 0.72
set bmargin at screen 0.14
do for [i = 0:1] {
	set lmargin at screen 0.08 + i * 0.49
	set rmargin at screen 0.08 + i * 0.49 + 0.41
	eval 'set xtics '.(i ? token_tics(tokens_lo, tokens_hi) : token_tics(length_lo, length_hi))
	set xlabel (i ? 'new tokens in the batch' : 'tokens of the prompt') textcolor rgb ink
	if (i == 0) {
		set title sprintf('one prompt, %s', model) textcolor rgb ink offset 0,-0.5
		set xrange [length_lo / 1.3 : length_hi * 1.3]
		set yrange [us_lo / 1.5 : us_hi * 1.5]
		eval 'set ytics '.time_tics(us_lo, us_hi)
		set ylabel 'time of one attention layer'
		if (has(2)) {
			plot rows index 2 @untuned_bar linecolor rgb colour[1], rows index 2 @tuned_bar linecolor rgb blue, \
				rows index 2 using 1:2 @untuned_line, rows index 2 using 1:3 @tuned_line, @legend
		} else {
			set label 4 'no such batches' at graph 0.5,0.5 center textcolor rgb faint
			set xrange [1:10]
			plot @legend
		}
	} else {
		unset key
		set title 'all models' textcolor rgb ink offset 0,-0.5
		set xrange [tokens_lo / 1.3 : tokens_hi * 1.3]
		set yrange [(gain_lo < 0.9 ? gain_lo : 0.9) / 1.05 : gain_hi * 1.15]
		eval 'set ytics '.times_tics
		set ylabel 'time untuned / tuned'
		set arrow 1 from graph 0,first 1 to graph 1,first 1 nohead linecolor rgb faint linewidth 1
		plot rows index 1 @gain_bar linecolor rgb grey, rows index 0 @gain_bar linecolor rgb blue, \
			rows index 1 using 1:2 @chunk_point, rows index 0 using 1:2 @whole_point
	}
	unset label
}
unset multiplot
