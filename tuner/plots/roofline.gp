# roofline.gp - what share of the device's measured ceilings a launch reaches.
set label 1 sprintf('Share of what %s can do', device)
set label 2 sprintf('All models, one point a batch. %s', how)
set logscale x
set yrange [0:105]
set ytics 20 format '%.0f %%'
set multiplot
set tmargin at screen 0.72
do for [i = 0:1] {
	set lmargin at screen 0.07 + i * 0.49
	set rmargin at screen 0.07 + i * 0.49 + 0.42
	set title (i ? sprintf('prefill: 100 %% is %.3g TFLOP/s, measured', fma_tflops) : sprintf('decode: 100 %% is %.0f GB/s of reads, measured', dram_gbps)) textcolor rgb ink offset 0,-0.5
	set xlabel (i ? 'FLOP in the batch' : 'bytes of keys and values read')
	set format x '%.0s%c'
	if (i) { unset key }
	set arrow 1 from graph 0,first 100 to graph 1,first 100 nohead linecolor rgb faint linewidth 1
	plot rows index 2 * i using 1:2 with points linecolor rgb grey pointtype 6 pointsize 0.5 title 'default parameters', \
		rows index 2 * i + 1 using 1:2 with points linecolor rgb blue pointtype 7 pointsize 0.5 title 'tuned choice'
	unset label
}
unset multiplot
