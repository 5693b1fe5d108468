# SPDX-License-Identifier: Apache-2.0
# peers.gp - a row a batch, a point an other's kernel: its time over that of our fastest plan. A kernel has a
# lane of its own in each row. Rows are as high in all panels: prompts above mixed batches on the left,
# decodes on the right. Ratios beyond the scale are numbers at its end.
array shade[12] = ['#5e3c99', '#d55e00', '#117733', '#e69f00', '#009e73', '#cc79a7', '#56b4e9', '#882255', '#24292f', '#b3a900', '#7a4b2a', '#8c959f']
array shape[12] = [13, 7, 5, 11, 7, 15, 9, 5, 9, 13, 11, 15]
look(k) = 1 + (word(looks, k) - 1) % 12
size = (png ? 0.85 : 0.7)
set label 1 at screen 0.02,0.942
set label 2 at screen 0.02,0.907
set label 1 sprintf('Kernels of others beside attune, on %s', device)
set label 2 sprintf('Right of the blue line attune is faster; pale: the interval of its own time. Every kernel by its fastest setting; %s', what)
unset key
# The legend, in lines.
at = 0.03
row = 0.873
do for [k in shown] {
	if (at + 0.03 + 0.0068 * strlen(word(names, k + 0)) > 0.98) {
		at = 0.03
		row = row - 0.027
	}
	set label 20 + k word(names, k + 0) at screen at,row left textcolor rgb ink offset 0.9,-0.1 point pointtype shape[look(k + 0)] pointsize 1.2 * size linecolor rgb shade[look(k + 0)]
	at = at + 0.036 + 0.0068 * strlen(word(names, k + 0))
}
most(a, b) = a > b ? a : b
titles = '"whole prompts" "prompts beside decodes" decodes'
left = word(batches, 1) + word(batches, 2)
gap = word(batches, 1) > 0 && word(batches, 2) > 0 ? 3.6 : 0
top = row - 0.055
high = (top - 0.07) / most(left + gap, 0 + word(batches, 3))
ours = 3 * num_names
lane(i) = (i - (num_shown + 1) / 2.0) * 0.8 / num_shown
set logscale x
set xtics font ',10'
set ytics scale 0 font ',10'
set border 1
set grid xtics noytics
set multiplot
do for [p = 0:2] {
	rows_here = 0 + word(batches, p + 1)
	if (rows_here > 0) {
		above = p == 1 && word(batches, 1) > 0 ? word(batches, 1) + gap : 0
		set lmargin at screen (p < 2 ? 0.145 : 0.6)
		set rmargin at screen (p < 2 ? 0.465 : 0.985)
		from = 0.97 * ratio_lo
		to = word(beyond, p + 1) + 0
		step = (to / from) ** (p < 2 ? 0.12 : 0.085) # a number's width
		numbers = p == 2 ? word(most_beyond, 3) + 0 : most(word(most_beyond, 1) + 0, word(most_beyond, 2) + 0)
		set xrange [from : to * step ** numbers]
		set tmargin at screen top - above * high
		set bmargin at screen top - (above + rows_here) * high
		set yrange [rows_here - 0.5 : -0.5]
		if (p < 2) { set xtics ('1' 1, '1.2' 1.2, '1.4' 1.4, '1.7' 1.7, '2' 2, '2.5' 2.5, '3' 3) } else { set xtics ('0.9' 0.9, '1' 1, '1.1' 1.1, '1.2' 1.2, '1.4' 1.4, '1.6' 1.6, '1.8' 1.8, '2' 2) }
		eval 'set ytics '.(p == 0 ? tics1 : p == 1 ? tics2 : tics3)
		set label 10 word(titles, p + 1) at graph 0,1 left offset 0,0.7 textcolor rgb faint
		unset arrow
		if (numbers) {
			set label 11 'beyond' at graph 1,1 right offset 0,0.7 textcolor rgb faint font ',10'
			set arrow 2 from first to,graph 0 to first to,graph 1 nohead linecolor rgb faint linewidth 0.5
		}
		if (p == 2 || word(batches, p + 2) == 0 || p == 1) { set xlabel "time of a call / time of attune's fastest plan" offset 0,0.2 textcolor rgb ink } else { unset xlabel }
		do for [i = 1:rows_here:2] {
			set object i rectangle from graph 0,first i - 1.5 to graph 1,first i - 0.5 behind fillcolor rgb '#f3f5f7' fillstyle solid noborder
		}
		set arrow 1 from first 1,graph 0 to first 1,graph 1 nohead linecolor rgb blue linewidth 1.5 back
		here = ''
		do for [i = 1:num_shown] { if (has(3 * (word(shown, i) - 1) + p)) { here = here.' '.i } }
		k(i) = 0 + word(shown, i + 0)
		block(i) = 3 * (k(i) - 1) + p
		color(i) = shade[look(k(i))]
		plot rows index ours + p using (1 - $3):1:(2 * $3):(0) with vectors nohead linecolor rgb pale linewidth 5, \
			for [i in here] rows index block(i) using ($4 > 0 ? NaN : $2 * (1 - $3)):($1 + lane(i)):(2 * $2 * $3):(0) with vectors nohead linecolor rgb color(i) linewidth 1, \
			for [i in here] rows index block(i) using ($4 > 0 ? NaN : $2):($1 + lane(i)) with points pointtype shape[look(k(i))] pointsize size linecolor rgb color(i), \
			for [i in here] rows index block(i) using ($4 > 0 ? to * step ** ($4 - 0.9) : NaN):1:(sprintf('%.1f', $2)) with labels left textcolor rgb color(i) font ',9'
		do for [i = 1:40] {
			unset label i
			unset object i
		}
	}
}
unset multiplot
