# SPDX-License-Identifier: Apache-2.0
# roofline.gp - what share of the device's measured ceilings a launch reaches.
set label 1 sprintf('Share of what %s can do', device)
set label 2 'All models, one point a batch.'
set logscale x
set ytics format '%.0f %%'
set format x '%.0s%c'
default_point = "with points linecolor rgb grey pointtype 6 pointsize 0.5"
tuned_point = "with points linecolor rgb blue pointtype 7 pointsize 0.5"
share_bar = bar(1, 2, 3)
legend = "NaN @default_point title 'default parameters', NaN @tuned_point title 'tuned choice'"
set multiplot
set tmargin at screen 0.72
do for [i = 0:1] {
	set lmargin at screen 0.07 + i * 0.49
	set rmargin at screen 0.07 + i * 0.49 + 0.42
	set title (i ? sprintf('prefill: 100 %% is %.3g TFLOP/s, measured by %s', fma_tflops, step) : sprintf('decode: 100 %% is '.(dram_gbps < 100 ? '%.3g' : '%.0f').' GB/s of reads, measured', dram_gbps)) textcolor rgb ink offset 0,-0.5
	set xlabel (i ? 'FLOP in the batch' : 'bytes of keys and values read')
	if (i) { unset key; set xrange [0.5 * flops_lo : 2 * flops_hi] } else { set xrange [0.5 * bytes_lo : 2 * bytes_hi] }
	set yrange [0 : (i ? flops_share_hi : bytes_share_hi) * 1.05]
	set arrow 1 from graph 0,first 100 to graph 1,first 100 nohead linecolor rgb faint linewidth 1
	if (has(2 * i) && has(2 * i + 1)) {
		plot rows index 2 * i @share_bar linecolor rgb grey, rows index 2 * i + 1 @share_bar linecolor rgb blue, \
			rows index 2 * i using 1:2 @default_point, rows index 2 * i + 1 using 1:2 @tuned_point, @legend
	} else {
		set label 4 'no such batches' at graph 0.5,0.5 center textcolor rgb faint
		plot @legend
	}
	unset label
}
unset multiplot
