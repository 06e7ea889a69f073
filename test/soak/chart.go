// Copyright The otelcol-fpm Authors
// SPDX-License-Identifier: Apache-2.0

package soak

import (
	"fmt"
	"math"
	"strings"
	"time"
)

const (
	chartWidth  = 760
	panelHeight = 150
	marginLeft  = 70
	marginRight = 20
	marginTop   = 28
)

type line struct {
	name  string
	color string
	of    func(*sample) *float64
	unit  float64
}

type panel struct {
	title string
	lines []line
}

var panels = []panel{
	{"memory (MiB)", []line{
		{"resident", "#1f77b4", func(s *sample) *float64 { return &s.RSS }, mebibyte},
		{"live heap", "#d62728", func(s *sample) *float64 { return &s.LiveHeap }, mebibyte},
	}},
	{"count", []line{
		{"goroutines", "#1f77b4", func(s *sample) *float64 { return &s.Goroutines }, 1},
		{"file descriptors", "#d62728", func(s *sample) *float64 { return &s.FDs }, 1},
		{"streams", "#2ca02c", func(s *sample) *float64 { return &s.Streams }, 1},
	}},
	{"trace files on disk (MiB)", []line{
		{"compressed", "#1f77b4", func(s *sample) *float64 { return &s.FileBytes }, mebibyte},
	}},
}

// chart draws the samples of a run as SVG.
func chart(samples []sample, length time.Duration) string {
	var b strings.Builder
	height := len(panels)*(panelHeight+marginTop) + 40
	fmt.Fprintf(&b, `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %d %d" font-family="sans-serif" font-size="12">`+"\n",
		chartWidth, height)
	fmt.Fprintf(&b, `<rect width="%d" height="%d" fill="white"/>`+"\n", chartWidth, height)
	for i, p := range panels {
		p.draw(&b, samples, length, i*(panelHeight+marginTop)+marginTop)
	}
	drawMinutes(&b, length, height-22)
	b.WriteString("</svg>\n")
	return b.String()
}

func (p panel) draw(b *strings.Builder, samples []sample, length time.Duration, top int) {
	highest := 0.0
	for _, l := range p.lines {
		for i := range samples {
			highest = max(highest, *l.of(&samples[i])/l.unit)
		}
	}
	ceiling := roundUp(highest)
	fmt.Fprintf(b, `<text x="%d" y="%d" font-weight="bold">%s</text>`+"\n", marginLeft, top-8, p.title)
	for step := range 5 {
		y := float64(top) + panelHeight*(1-float64(step)/4)
		fmt.Fprintf(b, `<line x1="%d" y1="%.1f" x2="%d" y2="%.1f" stroke="#ddd"/>`, marginLeft, y, chartWidth-marginRight, y)
		fmt.Fprintf(b, `<text x="%d" y="%.1f" text-anchor="end">%g</text>`+"\n", marginLeft-6, y+4, ceiling*float64(step)/4)
	}
	for i, l := range p.lines {
		fmt.Fprintf(b, `<text x="%d" y="%d" fill="%s">%s</text>`, marginLeft+220+140*i, top-8, l.color, l.name)
		fmt.Fprintf(b, `<polyline fill="none" stroke="%s" stroke-width="1.5" points="`, l.color)
		for j := range samples {
			s := &samples[j]
			if value := *l.of(s) / l.unit; value != 0 {
				fmt.Fprintf(b, "%.1f,%.1f ", x(s.At, length), float64(top)+panelHeight*(1-value/ceiling))
			}
		}
		b.WriteString("\"/>\n")
	}
}

func drawMinutes(b *strings.Builder, length time.Duration, y int) {
	const ticks = 6
	for i := range ticks + 1 {
		at := length * time.Duration(i) / ticks
		fmt.Fprintf(b, `<text x="%.1f" y="%d" text-anchor="middle">%.3g min</text>`+"\n", x(at, length), y, at.Minutes())
	}
}

func x(at, length time.Duration) float64 {
	return marginLeft + float64(chartWidth-marginLeft-marginRight)*float64(at)/float64(length)
}

// roundUp gives the next of 1, 2, 4 and 8 times a power of ten.
func roundUp(value float64) float64 {
	if value <= 0 {
		return 1
	}
	power := math.Pow(10, math.Floor(math.Log10(value)))
	for _, factor := range []float64{1, 2, 4, 8} {
		if value <= factor*power {
			return factor * power
		}
	}
	return 10 * power
}
