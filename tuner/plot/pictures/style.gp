# SPDX-License-Identifier: Apache-2.0
# style.gp - what all pictures have in common. Colours are of Okabe and Ito, which
# colour-blind readers can tell apart; the tuned choice is blue everywhere.
ink = '#24292f'
faint = '#6e7781'
rule = '#e4e7eb'
blue = '#0072b2'
pale = '#a3d0ec'
grey = '#8c959f'
array colour[14] = ['#d55e00', '#009e73', '#e69f00', '#cc79a7', '#24292f', '#b3a900', '#8c959f', '#56b4e9', '#7a4b2a', '#5e3c99', '#117733', '#882255', '#44aa99', '#ddaa33']
# From dark blue to light green, for what has an order.
array ordered[8] = ['#0b2545', '#134a8e', '#1d70b8', '#2394c4', '#1fa5b0', '#2bae93', '#52ab68', '#86a53a']

set encoding utf8
if (png) {
	set terminal pngcairo size 1.5*width,1.5*height font 'Helvetica,11' fontscale 1.5 linewidth 1.5 pointscale 1.5 background '#ffffff' noenhanced
} else {
	set terminal svg size width,height font 'Helvetica,Arial,sans-serif,13' background '#ffffff' noenhanced
}
set output path
set border 3 linecolor rgb faint linewidth 0.8
set tics nomirror out scale 0.5,0 textcolor rgb ink
set grid xtics ytics linecolor rgb rule linetype 1 linewidth 0.8
set xlabel textcolor rgb ink
set ylabel textcolor rgb ink

# What and where, with how and the noise floor on the right, then details, then the
# legend: three lines above the plot.
set label 1 at screen 0.02,0.94 left textcolor rgb ink font ',15'
set label 2 at screen 0.02,0.89 left textcolor rgb faint
# graph-rotating, rounds-rotating; each of them -steady
how = 'cold KV cache, '.(strstrt(protocol, 'graph') ? 'calls in a graph' : 'call by call').(strstrt(protocol, 'steady') ? ', unbroken load' : '')
what = sprintf('%s, %s, pages of %d', model, dtype, page_size)
set key at screen 0.02,0.855 left top vertical maxrows 1 Left reverse noautotitle textcolor rgb ink samplen 2 width 2
set tmargin at screen 0.78
set bmargin at screen 0.13

# Tics in words that people use: 1, 2, 5 times powers of ten, or these alone.
fine_tics = "('1 µs' 1, '2' 2, '5' 5, '10 µs' 10, '20' 20, '50' 50, '100 µs' 100, '200' 200, '500' 500, '1 ms' 1e3, '2' 2e3, '5' 5e3, '10 ms' 1e4, '20' 2e4, '50' 5e4, '100 ms' 1e5, '200' 2e5, '500' 5e5, '1 s' 1e6, '2' 2e6, '5' 5e6, '10 s' 1e7)"
coarse_tics = "('1 µs' 1, '10 µs' 10, '100 µs' 100, '1 ms' 1e3, '10 ms' 1e4, '100 ms' 1e5, '1 s' 1e6, '10 s' 1e7)"
time_tics(lo, hi) = log10(hi / lo) > 3.3 ? coarse_tics : fine_tics
power_tics = "('1' 1, '2' 2, '4' 4, '8' 8, '16' 16, '32' 32, '64' 64, '128' 128, '256' 256, '512' 512, '1k' 1024, '2k' 2048, '4k' 4096)"
far_token_tics = "('1' 1, '8' 8, '64' 64, '512' 512, '4k' 4096, '32k' 32768, '256k' 262144, '2M' 2097152, '16M' 16777216)"
near_token_tics = "('1' 1, '2' 2, '4' 4, '8' 8, '16' 16, '32' 32, '64' 64, '128' 128, '256' 256, '512' 512, '1k' 1024, '2k' 2048, '4k' 4096, '8k' 8192, '16k' 16384, '32k' 32768, '64k' 65536)"
middle_token_tics = "('1' 1, '4' 4, '16' 16, '64' 64, '256' 256, '1k' 1024, '4k' 4096, '16k' 16384, '64k' 65536, '256k' 262144, '1M' 1048576, '4M' 4194304, '16M' 16777216)"
token_tics(lo, hi) = hi / lo > 20000 ? far_token_tics : hi / lo > 100 ? middle_token_tics : near_token_tics
times_tics = "('0.5x' 0.5, '0.7x' 0.7, '1x' 1, '1.5x' 1.5, '2x' 2, '3x' 3, '5x' 5, '7x' 7, '10x' 10, '20x' 20, '30x' 30, '50x' 50, '100x' 100, '200x' 200, '500x' 500, '1000x' 1000)"

# A median's 95 % interval: a thin bar through its point, of columns where, value and ci of rows; an unknown
# ci is 0 there, since gnuplot warns of what has no points. with_ci: how many of num_points have one.
bars = !exists('with_ci') ? '' : with_ci == 0 ? "\nno intervals: fewer than six samples a point" : sprintf("\nbars beyond the points: 95 %% intervals; %d of %d points have one", with_ci, num_points)
set label 3 sprintf('medians%s, %s; %s%s', stale ? ', of older sources too' : '', how, noise_text, bars) at screen 0.98,0.982 right textcolor rgb faint font ',9'
bar(where, value, ci) = sprintf('using %d:($%d * (1 - $%d)):(0):(2 * $%d * $%d) with vectors nohead', where, value, ci, value, ci)

# filled: how many rows each block has. A block without any is left out; what then
# would be an empty plot says so.
has(block) = block < words(filled) && word(filled, block + 1) > 0
