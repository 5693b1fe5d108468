# SPDX-License-Identifier: Apache-2.0
# regret.gp - how far each way of choosing is from the fastest measured plan.
names = '"tuned choice" "one fixed choice" "rule of vLLM (Triton)" "rule of aiter" "default parameters"'
array shade[5] = [blue, colour[1], colour[5], colour[4], grey]
set label 1 sprintf('How often a choice is close to the best, on %s', device)
set label 2 'Share of batches at most so much slower than the fastest measured plan.'
set logscale x
set xrange [0.1:400]
set yrange [0:102]
set ytics 20 format '%.0f %%'
set xtics ('0.1 %%' 0.1, '0.3' 0.3, '1 %%' 1, '3' 3, '10 %%' 10, '30' 30, '100 %%' 100, '300' 300)
set xlabel 'slower by'
set object 1 rectangle from graph 0,graph 0 to first (noise > 0.1 ? noise : 0.1),graph 1 behind fillcolor rgb '#f2f4f6' fillstyle solid noborder
line = 'with steps linecolor rgb shade[k + 0] linewidth (k == 1 ? 3 : 1.6)'
set multiplot
set key maxrows 2
set tmargin at screen 0.68
do for [i = 0:1] {
	set lmargin at screen 0.07 + i * 0.49
	set rmargin at screen 0.07 + i * 0.49 + 0.42
	set title (i ? sprintf('held out: %d batches', num_heldout) : sprintf('learned from: %d batches', num_train)) textcolor rgb ink offset 0,-0.5
	if (i) { unset key }
	set label 5 'noise' at graph 0,graph 1.05 left textcolor rgb faint
	shown = ''
	do for [k = 1:5] { if (has(5 * i + k - 1)) { shown = shown.' '.k } }
	if (words(shown)) {
		plot for [k in shown] rows index 5 * i + k - 1 using ($1 > 0.1 ? $1 : 0.1):2 @line title word(names, k + 0)
	} else {
		set label 4 'no such batches' at graph 0.5,0.5 center textcolor rgb faint
		plot NaN
	}
	unset label
}
unset multiplot
