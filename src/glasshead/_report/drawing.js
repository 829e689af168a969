// Curves and points as SVG: axes, ticks, rules and marks.
const MARGIN = { left: 62, right: 18, top: 36, bottom: 46 }; // pixels

const SHAPES = {
  circle: (r) => `M${-r},0a${r},${r} 0 1,0 ${2 * r},0a${r},${r} 0 1,0 ${-2 * r},0`,
  square: (r) => `M${-r},${-r}h${2 * r}v${2 * r}h${-2 * r}z`,
  diamond: (r) => `M0,${-1.3 * r}L${1.3 * r},0L0,${1.3 * r}L${-1.3 * r},0z`,
  triangle: (r) => `M0,${-1.2 * r}L${1.15 * r},${0.9 * r}L${-1.15 * r},${0.9 * r}z`,
  down: (r) => `M0,${1.2 * r}L${1.15 * r},${-0.9 * r}L${-1.15 * r},${-0.9 * r}z`,
  cross: (r) =>
    `M${-r},${-0.35 * r}h${0.65 * r}v${-0.65 * r}h${0.7 * r}v${0.65 * r}h${0.65 * r}v${0.7 * r}h${-0.65 * r}v${0.65 * r}h${-0.7 * r}v${-0.65 * r}h${-0.65 * r}z`,
};

const SHAPE_ORDER = ["circle", "square", "triangle", "diamond", "down", "cross"];

// options: label, summary, x and y ({ label, log, min, max, marks }), series ([{ name, kind, colour, shape, hollow, size, points: [{ x, y, to, words }] }]),
// rules ([{ on, at, label }]), height. A point's words are [title, [name, value], ...].
class Drawing {
  constructor(options) {
    Object.assign(this, { rules: [], height: 300, ...options });
    this.domain = { x: { ...this.x }, y: { ...this.y } };
    this.svg = sketch("svg", {
      role: "img",
      tabindex: "0",
      "aria-label": `${this.label}. ${this.summary || ""} Arrow keys read the points.`,
    });
  }

  entry(one) {
    const mark =
      one.kind === "line" || one.kind === "step"
        ? sketch("path", { d: "M0,7h14v2h-14z", class: "mark" })
        : sketch("path", {
            d: SHAPES[one.shape || "circle"](4.5),
            transform: "translate(7 7)",
            class: one.hollow ? "open" : "mark",
          });
    return make(
      "li",
      { class: `k${one.colour}` },
      sketch("svg", { viewBox: "0 0 14 14", "aria-hidden": "true" }, mark),
      one.name,
    );
  }

  numbers() {
    return this.series.flatMap((one) =>
      one.points.map((p) => (p.row ? p.row : [one.name || "", p.x, p.to === undefined ? p.y : p.to])),
    );
  }

  draw() {
    const width = Math.max(240, this.node.clientWidth),
      { height } = this;
    this.frame = { x: [MARGIN.left, width - MARGIN.right], y: [height - MARGIN.bottom, MARGIN.top] };
    const sx = (this.sx = axis(this.domain.x, ...this.frame.x)),
      sy = (this.sy = axis(this.domain.y, ...this.frame.y));
    this.svg.setAttribute("viewBox", `0 0 ${width} ${height}`);
    this.svg.setAttribute("height", height);
    const clip = `clip${(Chart.count = (Chart.count || 0) + 1)}`;
    const inside = sketch("g", { "clip-path": `url(#${clip})` });
    this.places = [];
    for (const one of this.series) inside.append(...this.marks(one, sx, sy));
    this.places.sort((a, b) => a.px - b.px);
    this.ring = sketch("circle", { class: "cursor", r: 8, visibility: "hidden" });
    const room = sketch(
      "clipPath",
      { id: clip },
      sketch("rect", {
        x: MARGIN.left - 8,
        y: MARGIN.top - 8,
        width: width - MARGIN.left - MARGIN.right + 16,
        height: height - MARGIN.top - MARGIN.bottom + 16,
      }),
    );
    this.svg.replaceChildren(
      room,
      ...this.axes(sx, sy, width),
      ...this.rules.map((rule) => this.rule(rule, sx, sy)),
      inside,
      ...this.rules.map((rule) => this.ruleLabel(rule, sx, sy)),
      this.ring,
    );
    this.again.hidden = !this.zoomed;
  }

  axes(sx, sy, width) {
    const [x0, x1] = this.frame.x,
      [y0, y1] = this.frame.y;
    const at = this.x.marks || ticks(sx, Math.max(2, Math.floor((x1 - x0) / 90))).map((x) => [x, tickLabel(x)]);
    const up = this.y.marks || ticks(sy, 5).map((y) => [y, tickLabel(y)]);
    return [
      ...up.map(([y]) => sketch("line", { class: "gridline", x1: x0, x2: x1, y1: sy.at(y), y2: sy.at(y) })),
      sketch("line", { class: "baseline", x1: x0, x2: x1, y1: y0, y2: y0 }),
      ...up.map(([y, words]) => sketch("text", { x: x0 - 10, y: sy.at(y) + 4, "text-anchor": "end" }, words)),
      ...at.map(([x, words]) => sketch("text", { x: sx.at(x), y: y0 + 18, "text-anchor": "middle" }, words)),
      sketch(
        "text",
        { class: "axis", x: x1, y: y0 + 38, "text-anchor": "end" },
        this.x.label && `${this.x.label} \u2192`,
      ),
      sketch("text", { class: "axis", x: 0, y: 14 }, this.y.label && `\u2191 ${this.y.label}`),
    ];
  }

  rule({ on, at }, sx, sy) {
    const p = (on === "x" ? sx : sy).at(at),
      [x0, x1] = this.frame.x,
      [y0, y1] = this.frame.y;
    return sketch("line", {
      class: "rule",
      ...(on === "x" ? { x1: p, x2: p, y1: y0, y2: y1 } : { x1: x0, x2: x1, y1: p, y2: p }),
    });
  }

  ruleLabel({ on, at, label, end }, sx, sy) {
    const p = (on === "x" ? sx : sy).at(at),
      [x0, x1] = this.frame.x,
      [, y1] = this.frame.y;
    if (on === "y")
      return sketch(
        "text",
        {
          class: "rule-label",
          x: end === "left" ? x0 + 4 : x1,
          y: p - 6,
          "text-anchor": end === "left" ? "start" : "end",
        },
        label,
      );
    const right = p > (x0 + x1) / 2;
    return sketch(
      "text",
      { class: "rule-label", x: right ? p - 6 : p + 6, y: y1 + 12, "text-anchor": right ? "end" : "start" },
      label,
    );
  }

  marks(one, sx, sy) {
    const kind = one.kind || "points",
      colour = `k${one.colour}`,
      shown = one.points.filter((p) => p.x !== null && p.y !== null);
    const places = shown.map((p) => ({ p, px: sx.at(p.x), py: sy.at(p.y) }));
    if (one.quiet !== true) this.places.push(...places);
    if (kind === "line" || kind === "step") {
      const path = places
        .map(({ px, py }, k) => (k === 0 ? `M${px},${py}` : kind === "step" ? `H${px}V${py}` : `L${px},${py}`))
        .join("");
      return [sketch("path", { class: `trail ${colour} ${one.thin ? "thin" : ""}`, d: path })];
    }
    if (kind === "span")
      return places.map(({ p, px, py }) =>
        sketch("line", { class: `span ${colour}`, x1: px, x2: sx.at(p.to), y1: py, y2: py }),
      );
    const d = SHAPES[one.shape || "circle"](one.size || 4);
    return places.map(({ px, py }) =>
      sketch("path", { class: `${one.hollow ? "hollow" : "dot"} ${colour}`, d, transform: `translate(${px} ${py})` }),
    );
  }
}
