// Curves and points as SVG: axes, a tooltip at the nearest point, arrow keys, a box to zoom in, and the numbers as a table.
const MARGIN = { left: 62, right: 18, top: 14, bottom: 46 }, NEAR = 40; // pixels

const SHAPES = {
  circle: (r) => `M${-r},0a${r},${r} 0 1,0 ${2 * r},0a${r},${r} 0 1,0 ${-2 * r},0`,
  square: (r) => `M${-r},${-r}h${2 * r}v${2 * r}h${-2 * r}z`,
  diamond: (r) => `M0,${-1.3 * r}L${1.3 * r},0L0,${1.3 * r}L${-1.3 * r},0z`,
  triangle: (r) => `M0,${-1.2 * r}L${1.15 * r},${0.9 * r}L${-1.15 * r},${0.9 * r}z`,
  down: (r) => `M0,${1.2 * r}L${1.15 * r},${-0.9 * r}L${-1.15 * r},${-0.9 * r}z`,
  cross: (r) => `M${-r},${-0.35 * r}h${0.65 * r}v${-0.65 * r}h${0.7 * r}v${0.65 * r}h${0.65 * r}v${0.7 * r}h${-0.65 * r}v${0.65 * r}h${-0.7 * r}v${-0.65 * r}h${-0.65 * r}z`,
};

// options: label, summary, x and y ({ label, log, min, max, marks }), series ([{ name, kind, colour, shape, hollow, size, points: [{ x, y, to, words }] }]),
// rules ([{ on, at, label }]), height. A point's words are [title, [name, value], ...].
class Chart {
  constructor(options) {
    Object.assign(this, { rules: [], height: 300, ...options });
    this.domain = { x: { ...this.x }, y: { ...this.y } };
    this.chosen = null;
    this.svg = sketch("svg", { role: "img", tabindex: "0", "aria-label": `${this.label}. ${this.summary || ""} Arrow keys read the points.` });
    this.tip = make("div", { class: "tip", role: "status", "aria-live": "polite", hidden: true });
    this.again = make("button", { type: "button", hidden: true, onclick: () => this.reset(), "aria-label": `Reset zoom: ${this.label}` }, "Reset zoom");
    const named = this.series.filter((one) => one.name && one.points.length);
    const legend = named.length > 1 ? make("ul", { class: "legend" }, named.map((one) => this.entry(one))) : null;
    const table = dataTable(`${this.label}: the numbers`, this.columns || ["what", this.x.label, this.y.label], () => this.numbers());
    this.node = make("figure", { class: "chart" }, legend, this.svg, this.tip, make("div", { class: "chart-foot" }, table, this.again));
    this.listen();
    this.observer = new ResizeObserver(() => this.draw());
    this.observer.observe(this.node);
  }

  entry(one) {
    const mark = one.kind === "line" || one.kind === "step"
      ? sketch("path", { d: "M0,7h14v2h-14z", class: "mark" })
      : sketch("path", { d: SHAPES[one.shape || "circle"](4.5), transform: "translate(7 7)", class: one.hollow ? "open" : "mark" });
    return make("li", { class: `k${one.colour}` }, sketch("svg", { viewBox: "0 0 14 14", "aria-hidden": "true" }, mark), one.name);
  }

  numbers() {
    return this.series.flatMap((one) => one.points.map((p) => (p.row ? p.row : [one.name || "", p.x, p.to === undefined ? p.y : p.to])));
  }

  get points() { return this.places || []; }

  draw() {
    const width = Math.max(240, this.node.clientWidth), { height } = this;
    this.frame = { x: [MARGIN.left, width - MARGIN.right], y: [height - MARGIN.bottom, MARGIN.top] };
    const sx = (this.sx = axis(this.domain.x, ...this.frame.x)), sy = (this.sy = axis(this.domain.y, ...this.frame.y));
    this.svg.setAttribute("viewBox", `0 0 ${width} ${height}`);
    this.svg.setAttribute("height", height);
    const clip = `clip${(Chart.count = (Chart.count || 0) + 1)}`;
    const inside = sketch("g", { "clip-path": `url(#${clip})` });
    this.places = [];
    for (const one of this.series) inside.append(...this.marks(one, sx, sy));
    this.places.sort((a, b) => a.px - b.px);
    this.ring = sketch("circle", { class: "cursor", r: 8, visibility: "hidden" });
    const room = sketch("clipPath", { id: clip }, sketch("rect", { x: MARGIN.left - 8, y: MARGIN.top - 8, width: width - MARGIN.left - MARGIN.right + 16, height: height - MARGIN.top - MARGIN.bottom + 16 }));
    this.svg.replaceChildren(room, ...this.axes(sx, sy, width), ...this.rules.map((rule) => this.rule(rule, sx, sy)), inside, ...this.rules.map((rule) => this.ruleLabel(rule, sx, sy)), this.ring);
    this.again.hidden = !this.zoomed;
  }

  axes(sx, sy, width) {
    const [x0, x1] = this.frame.x, [y0, y1] = this.frame.y;
    const at = this.x.marks || ticks(sx, Math.max(2, Math.floor((x1 - x0) / 90))).map((x) => [x, tickLabel(x)]);
    const up = this.y.marks || ticks(sy, 5).map((y) => [y, tickLabel(y)]);
    return [
      ...up.map(([y]) => sketch("line", { class: "gridline", x1: x0, x2: x1, y1: sy.at(y), y2: sy.at(y) })),
      sketch("line", { class: "baseline", x1: x0, x2: x1, y1: y0, y2: y0 }),
      ...up.map(([y, words]) => sketch("text", { x: x0 - 10, y: sy.at(y) + 4, "text-anchor": "end" }, words)),
      ...at.map(([x, words]) => sketch("text", { x: sx.at(x), y: y0 + 18, "text-anchor": "middle" }, words)),
      sketch("text", { class: "axis", x: x1, y: y0 + 38, "text-anchor": "end" }, this.x.label),
      sketch("text", { class: "axis", x: 0, y: y1 - 2, visibility: "hidden" }, ""),
      sketch("text", { class: "axis", transform: `translate(12 ${y1}) rotate(-90)`, "text-anchor": "end" }, this.y.label),
    ];
  }

  rule({ on, at }, sx, sy) {
    const p = (on === "x" ? sx : sy).at(at), [x0, x1] = this.frame.x, [y0, y1] = this.frame.y;
    return sketch("line", { class: "rule", ...(on === "x" ? { x1: p, x2: p, y1: y0, y2: y1 } : { x1: x0, x2: x1, y1: p, y2: p }) });
  }

  ruleLabel({ on, at, label, end }, sx, sy) {
    const p = (on === "x" ? sx : sy).at(at), [x0, x1] = this.frame.x, [, y1] = this.frame.y;
    if (on === "y") return sketch("text", { class: "rule-label", x: end === "left" ? x0 + 4 : x1, y: p - 6, "text-anchor": end === "left" ? "start" : "end" }, label);
    const right = p > (x0 + x1) / 2;
    return sketch("text", { class: "rule-label", x: right ? p - 6 : p + 6, y: y1 + 12, "text-anchor": right ? "end" : "start" }, label);
  }

  marks(one, sx, sy) {
    const kind = one.kind || "points", colour = `k${one.colour}`, shown = one.points.filter((p) => p.x !== null && p.y !== null);
    const places = shown.map((p) => ({ p, px: sx.at(p.x), py: sy.at(p.y) }));
    if (one.quiet !== true) this.places.push(...places);
    if (kind === "line" || kind === "step") {
      const path = places.map(({ px, py }, k) => (k === 0 ? `M${px},${py}` : kind === "step" ? `H${px}V${py}` : `L${px},${py}`)).join("");
      return [sketch("path", { class: `trail ${colour} ${one.thin ? "thin" : ""}`, d: path })];
    }
    if (kind === "span") return places.map(({ p, px, py }) => sketch("line", { class: `span ${colour}`, x1: px, x2: sx.at(p.to), y1: py, y2: py }));
    const d = SHAPES[one.shape || "circle"](one.size || 4);
    return places.map(({ px, py }) => sketch("path", { class: `${one.hollow ? "hollow" : "dot"} ${colour}`, d, transform: `translate(${px} ${py})` }));
  }

  choose(place) {
    this.chosen = place;
    if (!place) {
      this.tip.hidden = true;
      this.ring.setAttribute("visibility", "hidden");
      return;
    }
    this.ring.setAttribute("visibility", "visible");
    this.ring.setAttribute("cx", place.px);
    this.ring.setAttribute("cy", place.py);
    const [title, ...lines] = place.p.words;
    this.tip.replaceChildren(make("b", {}, title), ...lines.map(([name, value]) => make("div", {}, name, " ", numeral(value, 4))));
    this.tip.hidden = false;
    const box = this.svg.getBoundingClientRect(), own = this.node.getBoundingClientRect(), wide = this.tip.offsetWidth;
    const x = Math.max(0, Math.min(own.width - wide, place.px - wide / 2));
    const above = box.top - own.top + place.py - this.tip.offsetHeight - 14;
    this.tip.style.left = `${x}px`;
    this.tip.style.top = `${above < -30 ? box.top - own.top + place.py + 16 : above}px`;
  }

  nearest(x, y) {
    let best = null, least = NEAR ** 2;
    for (const place of this.places) {
      const far = (place.px - x) ** 2 + (place.py - y) ** 2;
      if (far < least) [best, least] = [place, far];
    }
    return best;
  }

  listen() {
    const at = (event) => { const box = this.svg.getBoundingClientRect(); return [event.clientX - box.left, event.clientY - box.top]; };
    let start = null, box = null;
    this.svg.addEventListener("pointermove", (event) => {
      const [x, y] = at(event);
      if (start && event.pointerType === "mouse") {
        box.setAttribute("x", Math.min(start[0], x)); box.setAttribute("y", Math.min(start[1], y));
        box.setAttribute("width", Math.abs(x - start[0])); box.setAttribute("height", Math.abs(y - start[1]));
      } else this.choose(this.nearest(x, y));
    });
    this.svg.addEventListener("pointerdown", (event) => {
      if (event.pointerType !== "mouse") return;
      start = at(event);
      box = sketch("rect", { class: "brush", width: 0, height: 0 });
      this.svg.append(box);
    });
    const drop = (event) => {
      if (!start) return;
      const from = start, [x, y] = at(event);
      box.remove();
      start = null;
      if (event.type === "pointerup" && Math.abs(x - from[0]) > 12 && Math.abs(y - from[1]) > 12) this.zoom(from, [x, y]);
    };
    for (const name of ["pointerup", "pointercancel"]) this.svg.addEventListener(name, drop);
    this.svg.addEventListener("pointerleave", (event) => { drop(event); this.choose(null); });
    this.svg.addEventListener("dblclick", () => this.reset());
    this.svg.addEventListener("blur", () => this.choose(null));
    this.svg.addEventListener("keydown", (event) => {
      const step = { ArrowRight: 1, ArrowDown: 1, ArrowLeft: -1, ArrowUp: -1 }[event.key];
      if (step && this.places.length) {
        const now = this.chosen ? this.places.indexOf(this.chosen) : step > 0 ? -1 : this.places.length;
        this.choose(this.places[Math.max(0, Math.min(this.places.length - 1, now + step))]);
      } else if (event.key === "+" || event.key === "=") this.closer(0.5);
      else if (event.key === "-") this.closer(2);
      else if (event.key === "0" || event.key === "Escape") this.reset();
      else return;
      event.preventDefault();
    });
  }

  closer(factor) { // around the chosen point, or the middle
    const half = (side) => (factor * Math.abs(this.frame[side][1] - this.frame[side][0])) / 2;
    const middle = (side) => (this.frame[side][0] + this.frame[side][1]) / 2;
    const [x, y] = this.chosen ? [this.chosen.px, this.chosen.py] : [middle("x"), middle("y")];
    this.zoom([x - half("x"), y - half("y")], [x + half("x"), y + half("y")]);
  }

  zoom([xa, ya], [xb, yb]) {
    const between = (scale, a, b) => { const ends = [scale.back(a), scale.back(b)]; return { min: Math.min(...ends), max: Math.max(...ends) }; };
    Object.assign(this.domain.x, between(this.sx, xa, xb));
    if (!this.y.marks) Object.assign(this.domain.y, between(this.sy, ya, yb));
    this.zoomed = true;
    this.choose(null);
    this.draw();
  }

  reset() {
    this.domain = { x: { ...this.x }, y: { ...this.y } };
    this.zoomed = false;
    this.choose(null);
    this.draw();
  }
}
