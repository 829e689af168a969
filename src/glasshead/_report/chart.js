// A drawing that can be used: a tooltip at the nearest point, arrow keys, a box to zoom in, and the numbers as a table.
const NEAR = 40; // pixels

class Chart extends Drawing {
  constructor(options) {
    super(options);
    this.chosen = null;
    this.tip = make("div", { class: "tip", role: "status", "aria-live": "polite", hidden: true });
    this.again = make(
      "button",
      { type: "button", hidden: true, onclick: () => this.reset(), "aria-label": `Reset zoom: ${this.label}` },
      "Reset zoom",
    );
    const named = this.series.filter((one) => one.name && one.points.length);
    const legend =
      named.length > 1
        ? make(
            "ul",
            { class: "legend" },
            named.map((one) => this.entry(one)),
          )
        : null;
    const table = dataTable(`${this.label}: the numbers`, this.columns || ["what", this.x.label, this.y.label], () =>
      this.numbers(),
    );
    this.node = make(
      "figure",
      { class: "chart" },
      legend,
      this.svg,
      this.tip,
      make("div", { class: "chart-foot" }, table, this.again),
    );
    this.listen();
    this.observer = new ResizeObserver(() => this.draw());
    this.observer.observe(this.node);
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
    this.tip.replaceChildren(
      make("b", {}, title),
      ...lines.map(([name, value]) => make("div", {}, name, " ", numeral(value, 4))),
    );
    this.tip.hidden = false;
    const box = this.svg.getBoundingClientRect(),
      own = this.node.getBoundingClientRect(),
      wide = this.tip.offsetWidth;
    const x = Math.max(0, Math.min(own.width - wide, place.px - wide / 2));
    const above = box.top - own.top + place.py - this.tip.offsetHeight - 14;
    this.tip.style.left = `${x}px`;
    this.tip.style.top = `${above < -30 ? box.top - own.top + place.py + 16 : above}px`;
  }

  nearest(x, y) {
    let best = null,
      least = NEAR ** 2;
    for (const place of this.places) {
      const far = (place.px - x) ** 2 + (place.py - y) ** 2;
      if (far < least) [best, least] = [place, far];
    }
    return best;
  }

  listen() {
    const at = (event) => {
      const box = this.svg.getBoundingClientRect();
      return [event.clientX - box.left, event.clientY - box.top];
    };
    let start = null,
      box = null;
    this.svg.addEventListener("pointermove", (event) => {
      const [x, y] = at(event);
      if (start && event.pointerType === "mouse") {
        box.setAttribute("x", Math.min(start[0], x));
        box.setAttribute("y", Math.min(start[1], y));
        box.setAttribute("width", Math.abs(x - start[0]));
        box.setAttribute("height", Math.abs(y - start[1]));
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
      const from = start,
        [x, y] = at(event);
      box.remove();
      start = null;
      if (event.type === "pointerup" && Math.abs(x - from[0]) > 12 && Math.abs(y - from[1]) > 12)
        this.zoom(from, [x, y]);
    };
    for (const name of ["pointerup", "pointercancel"]) this.svg.addEventListener(name, drop);
    this.svg.addEventListener("pointerleave", (event) => {
      drop(event);
      this.choose(null);
    });
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

  closer(factor) {
    // around the chosen point, or the middle
    const half = (side) => (factor * Math.abs(this.frame[side][1] - this.frame[side][0])) / 2;
    const middle = (side) => (this.frame[side][0] + this.frame[side][1]) / 2;
    const [x, y] = this.chosen ? [this.chosen.px, this.chosen.py] : [middle("x"), middle("y")];
    this.zoom([x - half("x"), y - half("y")], [x + half("x"), y + half("y")]);
  }

  zoom([xa, ya], [xb, yb]) {
    const between = (scale, a, b) => {
      const ends = [scale.back(a), scale.back(b)];
      return { min: Math.min(...ends), max: Math.max(...ends) };
    };
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
