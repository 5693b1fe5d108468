# mixed.gp - one prompt beside decodes: time over the ideal, a column a batch. Ways of ours are
# filled, others' figures hollow; each stands at a place of its own in the column.
array shade[15] = [blue, blue, grey, colour[2], colour[1], colour[3], ink, ink, ink, ink, ink, ink, ink, ink, ink]
array shape[15] = [7, 6, 5, 9, 13, 11, 8, 4, 12, 10, 14, 2, 1, 3, 15]
size(k) = (k < 3 ? 0.9 : 0.75) * (png ? 1 : 0.75)
place(i) = (i - (num_seen + 1) / 2.0) / (num_seen + 2.0)
kind(i) = 0 + word(seen, i)
set label 1 sprintf('A prompt or a chunk of it beside decodes, on %s', device)
set label 2 sprintf('Time over the ideal: keys and values read once at %.0f GB/s or all products at %.0f TFLOP/s, whichever takes longer; %s', dram_gbps, fma_tflops, what)
unset key
set lmargin at screen 0.05
set rmargin at screen 0.985
set tmargin at screen 0.755
set bmargin at screen 0.115
set logscale y
set yrange [0.95 * over_lo : 1.08 * over_hi]
set xrange [-0.5 : num_mixed - 0.5]
set ytics ('ideal' 1, '1.2x' 1.2, '1.5x' 1.5, '2x' 2, '2.5x' 2.5, '3x' 3, '4x' 4, '5x' 5, '6x' 6, '8x' 8, '10x' 10, '15x' 15, '20x' 20)
eval 'set xtics '.tics
set grid ytics noxtics
do for [i = 0 : num_mixed - 1 : 2] {
	set object 1 + i rectangle from first i - 0.5, graph 0 to first i + 0.5, graph 1 behind fillcolor rgb '#f3f5f7' fillstyle solid noborder
}
set arrow 1 from graph 0,first 1 to graph 1,first 1 nohead linecolor rgb ink linewidth 1.2
# The legend: a line of ours, a line of others'.
row = 0.84
at = 0.03
do for [i = 1:num_seen] {
	if (i == num_own + 1) {
		row = 0.79
		at = 0.03
		others = 'others:'
		set label 20 others at screen 0.02,row left textcolor rgb faint
		at = 0.035 + 0.0058 * strlen(others)
	}
	set label 20 + i word(names, i) at screen at,row left textcolor rgb ink offset 0.9,-0.15 point pointtype shape[kind(i)] pointsize size(kind(i)) linecolor rgb shade[kind(i)]
	at = at + 0.028 + 0.0058 * strlen(word(names, i))
}
plot for [i = 1:num_seen] rows index i - 1 using ($1 + place(i)):2 with points linecolor rgb shade[kind(i)] pointtype shape[kind(i)] pointsize size(kind(i))
