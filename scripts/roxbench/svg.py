# SPDX-License-Identifier: GPL-2.0
"""Two kinds of picture: bars of ratios, and curves over the message size."""

import math
from html import escape

COLOURS = {"rox": "#0b6e4f", "rxe": "#c1440e", "siw": "#d9a404", "tcp": "#3a6ea5",
           "limit": "#666666"}
FONT = 'font-family="sans-serif" font-size="12"'
LEFT, RIGHT, TOP, BOTTOM = 250, 70, 46, 40
BAR, GAP = 14, 10
WIDTH = 820


class Picture:
    """An SVG file under construction."""

    def __init__(self, width, height, title):
        self.head = (f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" '
                     f'viewBox="0 0 {width} {height}" {FONT}>')
        self.parts = [f'<rect width="{width}" height="{height}" fill="white"/>']
        self.text(12, 22, title, size=15)

    def text(self, x, y, words, anchor="start", size=12, fill="#222"):
        self.parts.append(f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" '
                          f'font-size="{size}" fill="{fill}">{escape(words)}</text>')

    def box(self, x, y, width, height, fill):
        self.parts.append(f'<rect x="{x:.1f}" y="{y:.1f}" width="{max(width, 0.5):.1f}" '
                          f'height="{height:.1f}" fill="{fill}"/>')

    def line(self, x1, y1, x2, y2, stroke="#ddd"):
        self.parts.append(f'<line x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}" '
                          f'stroke="{stroke}"/>')

    def curve(self, points, stroke):
        path = " ".join(f"{x:.1f},{y:.1f}" for x, y in points)
        self.parts.append(f'<polyline points="{path}" fill="none" stroke="{stroke}" '
                          f'stroke-width="2"/>')
        self.parts += [f'<circle cx="{x:.1f}" cy="{y:.1f}" r="3" fill="{stroke}"/>'
                       for x, y in points]

    def done(self):
        return "\n".join([self.head, *self.parts, "</svg>"]) + "\n"


class Scale:
    """A logarithmic axis between two points of the picture."""

    def __init__(self, values, start, end, base=10):
        self.base = base
        self.low = math.floor(math.log(min(values), base))
        self.high = max(math.ceil(math.log(max(values), base)), self.low + 1)
        self.start, self.end = start, end

    def __call__(self, value):
        part = (math.log(value, self.base) - self.low) / (self.high - self.low)
        return self.start + part * (self.end - self.start)

    def marks(self):
        return [self.base ** power for power in range(self.low, self.high + 1)]


def short(value):
    for step, name in ((1 << 20, "Mi"), (1 << 10, "Ki")):
        if value >= step and value % step == 0:
            return f"{value // step} {name}"
    return f"{value:g}"


def legend(picture, peers, names, y=40):
    x = 260
    for peer in peers:
        picture.box(x, y - 9, 10, 10, COLOURS[peer])
        picture.text(x + 14, y, names[peer])
        x += 30 + 8 * len(names[peer])


def bars(title, groups, names):
    """groups: [(text, {peer: how many times as good rox is})]; 1 is marked."""
    count = sum(len(ratios) for _, ratios in groups)
    height = TOP + count * BAR + len(groups) * GAP + BOTTOM
    picture = Picture(WIDTH, height, title)
    every = [r for _, ratios in groups for r in ratios.values()]
    scale = Scale([*every, 1], LEFT, WIDTH - RIGHT)
    for mark in scale.marks():
        picture.line(scale(mark), TOP, scale(mark), height - BOTTOM + 4)
        picture.text(scale(mark), height - BOTTOM + 18, f"{mark:g}", "middle")
    picture.line(scale(1), TOP, scale(1), height - BOTTOM, "#222")
    legend(picture, [p for p in COLOURS if any(p in r for _, r in groups)], names)
    y = TOP + GAP / 2
    for text, ratios in groups:
        picture.text(LEFT - 8, y + len(ratios) * BAR / 2 + 4, text, "end")
        for peer, ratio in ratios.items():
            ends = sorted((scale(1), scale(ratio)))
            picture.box(ends[0], y + 1, ends[1] - ends[0], BAR - 2, COLOURS[peer])
            picture.text(ends[1] + 4, y + BAR - 3, f"{ratio:.3g}", size=11)
            y += BAR
        y += GAP
    return picture.done()


def curves(title, series, names, unit):
    """series: {peer: [(size in bytes, value)]}; both axes are logarithmic."""
    width, height, left = WIDTH, 360, 70
    picture = Picture(width, height, title)
    points = [point for line in series.values() for point in line]
    across = Scale([x for x, _ in points], left, width - RIGHT, 2)
    up = Scale([y for _, y in points], height - BOTTOM, TOP + 10)
    for mark in up.marks():
        picture.line(left, up(mark), width - RIGHT, up(mark))
        picture.text(left - 6, up(mark) + 4, f"{mark:g}", "end")
    for mark in sorted({x for x, _ in points}):
        picture.text(across(mark), height - BOTTOM + 18, short(mark), "middle")
    picture.text(width - RIGHT, height - 6, f"{unit}, over the message size in bytes", "end")
    legend(picture, series, names)
    for peer, line in series.items():
        picture.curve([(across(x), up(y)) for x, y in sorted(line)], COLOURS[peer])
    return picture.done()
