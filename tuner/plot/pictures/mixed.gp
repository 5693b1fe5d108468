# SPDX-License-Identifier: Apache-2.0
# mixed.gp - one prompt beside decodes: time over the ideal, a column a batch. Each way stands at a place
# of its own in the column.
array shade[6] = [blue, colour[3], grey, colour[2], colour[1], ink]
array shape[6] = [7, 11, 5, 9, 13, 6]
size = png ? 1.25 : 1
place(i) = (i - (num_seen + 1) / 2.0) / (num_seen + 1.0)
kind(i) = 0 + word(seen, i)
wording(i) = word(names, i).(kind(i) == 6 ? ': '.rivals : '')
set label 1 sprintf('A prompt or a chunk of it beside decodes, on %s', device)
set label 2 sprintf('The ideal: keys and values read once at %.0f GB/s, or all products at %.0f TFLOP/s if that takes longer; %s', dram_gbps, fma_tflops, what)
unset key
set lmargin at screen 0.075
set rmargin at screen 0.985
set tmargin at screen 0.79
set bmargin at screen 0.115
set logscale y
set yrange [0.97 * over_lo : 1.04 * over_hi]
set xrange [-0.5 : num_mixed - 0.5]
set ytics ('1' 1, '1.1' 1.1, '1.2' 1.2, '1.3' 1.3, '1.4' 1.4, '1.6' 1.6, '1.8' 1.8, '2' 2, '2.5' 2.5, '3' 3, '4' 4, '5' 5, '6' 6, '8' 8, '10' 10, '15' 15, '20' 20)
set ylabel 'time of a call / the ideal'
eval 'set xtics '.tics
set grid ytics noxtics
do for [i = 0 : num_mixed - 1 : 2] {
	set object 1 + i rectangle from first i - 0.5, graph 0 to first i + 0.5, graph 1 behind fillcolor rgb '#f3f5f7' fillstyle solid noborder
}
set arrow 1 from graph 0,first 1 to graph 1,first 1 nohead linecolor rgb ink linewidth 1.2
at = 0.03
do for [i = 1:num_seen] {
	set label 20 + i wording(i) at screen at,0.835 left textcolor rgb ink offset 0.9,-0.15 point pointtype shape[kind(i)] pointsize size linecolor rgb shade[kind(i)]
	at = at + 0.032 + 0.0061 * strlen(wording(i))
}
plot for [i = 1:num_seen] rows index i - 1 using ($1 + place(i)):($2 * (1 - $3)):(0):(2 * $2 * $3) with vectors nohead linecolor rgb shade[kind(i)] linewidth 1.4, \
	for [i = 1:num_seen] rows index i - 1 using ($1 + place(i)):2 with points linecolor rgb shade[kind(i)] pointtype shape[kind(i)] pointsize size
