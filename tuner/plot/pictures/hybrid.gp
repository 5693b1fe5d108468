# hybrid.gp - a chunk of a prompt beside decodes: how each way compares with the best serial
# plan, over all such batches; and how that depends on what either phase takes.
array shade[5] = [grey, colour[1], colour[3], colour[2], blue]
set label 1 sprintf('One chunk beside many decodes, on %s', device)
set label 2 sprintf('Against the best plan that runs one after the other; %d batches. Geometric mean and most in brackets.', num_hybrid)
left = gain_lo < 0.6 ? 0.6 : gain_lo
shown = ''
do for [k = 1:5] { if (has(k - 1)) { shown = shown.' '.k } }
set arrow 1 from first 1,graph 0 to first 1,graph 1 nohead linecolor rgb faint linewidth 1
line = 'with steps linecolor rgb shade[k + 0] linewidth (k == 5 ? 3 : 1.6)'
best_point = 'with points linecolor rgb grey pointtype 6 pointsize 0.5'
tuned_point = 'with points linecolor rgb blue pointtype 7 pointsize 0.5'
tuned_bar = bar(1, 3, 4)
wording(k) = sprintf('%s (%.2fx, %.2fx)', word(ways, k), 0 + word(means, k), 0 + word(mosts, k))
set multiplot
set key maxrows 2
set tmargin at screen 0.70
set bmargin at screen 0.14
set lmargin at screen 0.07
set rmargin at screen 0.49
set title 'share of batches that are at least so much faster' textcolor rgb ink offset 0,-0.5
set xrange [left - 0.02 : gain_hi + 0.02]
set yrange [0:102]
set ytics 20 format '%.0f %%'
set xtics format '%.1fx'
set xlabel 'times as fast as the best serial plan' textcolor rgb ink
plot for [k in shown] rows index 0 + k - 1 using 1:2 @line title wording(k + 0)
unset label
unset arrow
set key at screen 0.98,0.765 right top maxrows 1
set lmargin at screen 0.57
set rmargin at screen 0.98
unset title
set label 4 'by what the chunk takes' at graph 0,1.07 left textcolor rgb ink
set xrange [0:100]
set yrange [(found_lo < 1 ? found_lo : 1) - 0.02 : found_hi + 0.02]
set xtics 20 format '%.0f %%'
set ytics autofreq format '%.2fx'
set xlabel 'share of the chunk in the time of both parts' textcolor rgb ink
set arrow 1 from graph 0,first 1 to graph 1,first 1 nohead linecolor rgb faint linewidth 1
if (has(5)) {
	plot rows index 5 @tuned_bar linecolor rgb blue, rows index 5 using 1:2 @best_point title 'best way', rows index 5 using 1:3 @tuned_point title 'tuned choice'
}
unset multiplot
