# peers.gp - a row a batch, a point an other's kernel: its time over that of our fastest plan.
# Rows are as high in all panels: prompts above mixed batches on the left, decodes on the right.
array shade[9] = ['#d55e00', '#009e73', '#117733', '#5e3c99', '#e69f00', '#b3a900', '#56b4e9', '#cc79a7', '#882255']
array shape[9] = [9, 7, 5, 13, 11, 15, 7, 9, 5]
set label 1 sprintf('Kernels of others beside attune, on %s', device)
set label 2 sprintf('Time of a call over that of our fastest plan, right of the line attune is faster; the shortest call on top; %s', what)
set label 3 sprintf('all in the same rounds of one race each, %s protocol; every kernel by its fastest setting', protocol)
unset key
# The legend, two lines of it
at = 0.03
row = 0.845
do for [k = 1:num_names] {
	if (0 + word(seen, k)) {
		if (at + 0.03 + 0.0063 * strlen(word(names, k)) > 0.98) {
			at = 0.03
			row = row - 0.036
		}
		set label 20 + k word(names, k) at screen at,row left textcolor rgb ink offset 0.9,-0.1 point pointtype shape[k] pointsize (png ? 0.9 : 0.7) linecolor rgb shade[k]
		at = at + 0.03 + 0.0063 * strlen(word(names, k))
	}
}
most(a, b) = a > b ? a : b
titles = '"whole prompts" "prompts beside decodes" decodes'
left = word(batches, 1) + word(batches, 2)
gap = word(batches, 1) > 0 && word(batches, 2) > 0 ? 2.6 : 0
high = 0.70 / most(left + gap, 0 + word(batches, 3))
top = 0.765
set logscale x
set xrange [0.97 * ratio_lo : 1.06 * ratio_hi]
set xtics ('0.9' 0.9, '1' 1, '1.2' 1.2, '1.5' 1.5, '2' 2, '3' 3, '5' 5, '8' 8, '12' 12, '20' 20)
set ytics scale 0 font ',10'
set border 1
set grid xtics ytics
set multiplot
do for [k = 1:3] {
	rows_here = 0 + word(batches, k)
	if (rows_here > 0) {
		above = k == 2 && word(batches, 1) > 0 ? word(batches, 1) + gap : 0
		from = k < 3 ? 0.14 : 0.62
		set lmargin at screen from
		set rmargin at screen (k < 3 ? 0.485 : 0.985)
		set tmargin at screen top - above * high
		set bmargin at screen top - (above + rows_here) * high
		set yrange [rows_here - 0.5 : -0.5]
		eval 'set ytics '.(k == 1 ? tics1 : k == 2 ? tics2 : tics3)
		set label 10 word(titles, k) at graph 0,1 left offset 0,0.7 textcolor rgb faint
		set arrow 1 from first 1,graph 0 to first 1,graph 1 nohead linecolor rgb blue linewidth 2.5 back
		shown = ''
		do for [i = 1:num_names] { if (has(3 * (i - 1) + k - 1)) { shown = shown.' '.i } }
		plot for [i in shown] rows index 3 * (i - 1) + k - 1 using 2:1 with points pointtype shape[i + 0] pointsize (png ? 1 : 0.8) linecolor rgb shade[i + 0]
		do for [i = 1:40] {
			unset label i
		}
	}
}
unset multiplot
