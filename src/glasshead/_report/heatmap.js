// Matrices side by side on canvases, with one view and one cursor for all of them: hover, zoom, drag, keys.
const LEAST_CELLS = 4; // rows of the closest view

class HeatMaps {
  // panels: [{ name, note, matrix, limit, palette, read }], all of as many rows and columns; where: (i, j) => words.
  constructor(id, panels, { where, label, hint }) {
    this.panels = panels;
    this.where = where;
    [this.rows, this.columns] = [panels[0].matrix.rows, panels[0].matrix.columns];
    this.view = { top: 0, left: 0, share: 1 };
    this.cursor = null;
    this.readout = make("div", { class: "readout", id: `${id}-readout`, role: "status", "aria-live": "polite" });
    this.canvases = panels.map((panel) => this.canvas(panel, label, id));
    const button = (words, name, act) =>
      make("button", { type: "button", "aria-label": `${name}: ${label}`, onclick: act }, words);
    const tools = make(
      "div",
      { class: "tools" },
      button("+", "Zoom in", () => this.zoom(0.5)),
      button("\u2212", "Zoom out", () => this.zoom(2)),
      button("Reset", "Reset zoom", () => this.reset()),
      this.readout,
    );
    this.node = make(
      "div",
      { class: "card", id },
      make(
        "div",
        { class: "maps" },
        panels.map((panel, k) => this.figure(panel, k)),
      ),
      tools,
      make(
        "p",
        { class: "hint" },
        hint || "Point at an entry to read it. Click, then scroll to zoom; drag to move. Keys: arrows, +, \u2212, 0.",
      ),
    );
    this.say();
    this.paint = () => this.draw();
    painters.add(this.paint);
    this.observer = new ResizeObserver(this.paint);
    this.observer.observe(this.canvases[0]);
  }

  remove() {
    painters.delete(this.paint);
    this.observer.disconnect();
  }

  canvas(panel, label, id) {
    const canvas = make("canvas", {
      tabindex: "0",
      role: "img",
      "data-map": panel.key || panel.name,
      "aria-describedby": `${id}-readout`,
      "aria-label": `${label}, ${panel.name}: ${this.rows} rows, ${this.columns} columns, entries up to ${say(panel.limit)} in size. Arrow keys read entries.`,
    });
    const pointers = new Map();
    let dragged = null,
      spread = 0;
    const apart = () => {
      const [a, b] = [...pointers.values()];
      return Math.hypot(a.x - b.x, a.y - b.y);
    };
    canvas.addEventListener("pointermove", (event) => {
      if (pointers.has(event.pointerId)) pointers.set(event.pointerId, { x: event.clientX, y: event.clientY });
      if (pointers.size === 2) {
        const now = apart();
        if (spread) this.zoom(spread / now, this.cellAt(canvas, event, true));
        spread = now;
      } else if (dragged && this.view.share < 1) {
        const box = canvas.getBoundingClientRect();
        this.view.left -= ((event.clientX - dragged.x) / box.width) * this.view.share;
        this.view.top -= ((event.clientY - dragged.y) / box.height) * this.view.share;
        dragged = { x: event.clientX, y: event.clientY };
        this.settle();
      } else this.point(...this.cellAt(canvas, event));
    });
    canvas.addEventListener("pointerdown", (event) => {
      pointers.set(event.pointerId, { x: event.clientX, y: event.clientY });
      dragged = { x: event.clientX, y: event.clientY };
      spread = 0;
      this.point(...this.cellAt(canvas, event));
    });
    const release = (event) => {
      pointers.delete(event.pointerId);
      dragged = null;
      spread = 0;
    };
    for (const name of ["pointerup", "pointercancel", "pointerleave"]) canvas.addEventListener(name, release);
    canvas.addEventListener(
      "wheel",
      (event) => {
        if (document.activeElement !== canvas && !event.ctrlKey) return; // the page scrolls until a map is chosen
        event.preventDefault();
        this.zoom(2 ** (Math.sign(event.deltaY) * 0.4), this.cellAt(canvas, event, true));
      },
      { passive: false },
    );
    canvas.addEventListener("keydown", (event) => this.key(event));
    return canvas;
  }

  figure(panel, k) {
    const strip = make("canvas", { width: LEVELS, height: 1, "aria-hidden": "true" });
    panel.strip = strip;
    const ends = panel.palette === "weight" ? [0, panel.limit / 2, panel.limit] : [-panel.limit, 0, panel.limit];
    return make(
      "figure",
      { class: "map" },
      make("figcaption", {}, panel.name, panel.note ? make("small", {}, ` ${panel.note}`) : null),
      this.canvases[k],
      make(
        "div",
        { class: "scale" },
        strip,
        ends.map((x) => make("span", {}, say(x, 2))),
      ),
    );
  }

  cellAt(canvas, event, exact = false) {
    const box = canvas.getBoundingClientRect();
    const x = this.columns * (this.view.left + ((event.clientX - box.left) / box.width) * this.view.share);
    const y = this.rows * (this.view.top + ((event.clientY - box.top) / box.height) * this.view.share);
    return exact ? [y, x] : [Math.floor(y), Math.floor(x)];
  }

  point(i, j) {
    const inside = (n, count) => Math.max(0, Math.min(count - 1, n));
    this.cursor = [inside(i, this.rows), inside(j, this.columns)];
    this.say();
    this.draw();
  }

  key(event) {
    const moves = { ArrowUp: [-1, 0], ArrowDown: [1, 0], ArrowLeft: [0, -1], ArrowRight: [0, 1] };
    if (moves[event.key]) {
      const [i, j] = this.cursor || [0, 0],
        [down, across] = this.cursor ? moves[event.key] : [0, 0];
      this.point(i + down, j + across);
      this.follow();
    } else if (event.key === "+" || event.key === "=") this.zoom(0.5);
    else if (event.key === "-") this.zoom(2);
    else if (event.key === "0" || event.key === "Escape") this.reset();
    else return;
    event.preventDefault();
  }

  zoom(
    factor,
    at = this.cursor
      ? [this.cursor[0] + 0.5, this.cursor[1] + 0.5]
      : [this.rows * (this.view.top + this.view.share / 2), this.columns * (this.view.left + this.view.share / 2)],
  ) {
    const { top, left, share } = this.view;
    const next = Math.min(1, Math.max(Math.min(1, LEAST_CELLS / Math.max(this.rows, this.columns)), share * factor));
    const [y, x] = [at[0] / this.rows, at[1] / this.columns];
    this.view = { share: next, top: y - ((y - top) / share) * next, left: x - ((x - left) / share) * next };
    this.settle();
  }

  follow() {
    // the cursor stays in sight
    const { share } = this.view,
      [i, j] = this.cursor;
    this.view.top = Math.max((i + 1) / this.rows - share, Math.min(i / this.rows, this.view.top));
    this.view.left = Math.max((j + 1) / this.columns - share, Math.min(j / this.columns, this.view.left));
    this.settle();
  }

  settle() {
    for (const side of ["top", "left"]) this.view[side] = Math.max(0, Math.min(1 - this.view.share, this.view[side]));
    this.draw();
  }

  reset() {
    this.view = { top: 0, left: 0, share: 1 };
    this.draw();
  }

  say() {
    if (!this.cursor) return this.readout.replaceChildren(make("span", {}, "no entry chosen"));
    const [i, j] = this.cursor;
    this.readout.replaceChildren(
      make("b", {}, this.where(i, j)),
      ...this.panels.map((panel) => {
        const value = entry(panel.matrix, i, j),
          block = panel.matrix.block;
        const words = block > 1 ? `${panel.name}, largest of ${block} \u00d7 ${block}` : panel.name;
        const shown = make(
          "b",
          { "data-panel": panel.key || panel.name, "data-value": String(value) },
          say(value, panel.digits || 7),
        );
        return make("span", {}, `${words} `, shown);
      }),
    );
  }

  draw() {
    this.panels.forEach((panel, k) => {
      const canvas = this.canvases[k],
        ratio = window.devicePixelRatio || 1;
      const width = Math.max(1, Math.round(canvas.clientWidth * ratio));
      const tall = Math.min(1.6, Math.max(0.12, this.rows / this.columns));
      if (canvas.width !== width) [canvas.width, canvas.height] = [width, Math.max(1, Math.round(width * tall))];
      colourIn(canvas, panel, this.view);
      if (this.cursor) this.cross(canvas);
      const strip = panel.strip.getContext("2d"),
        image = strip.createImageData(LEVELS, 1);
      new Uint32Array(image.data.buffer).set(palette(panel.palette || "signed"));
      strip.putImageData(image, 0, 0);
    });
  }

  cross(canvas) {
    const context = canvas.getContext("2d"),
      { top, left, share } = this.view,
      [i, j] = this.cursor;
    const wide = canvas.width / (share * this.columns),
      high = canvas.height / (share * this.rows);
    const x = (j - left * this.columns) * wide,
      y = (i - top * this.rows) * high;
    const dark = isDark();
    context.strokeStyle = dark ? "rgba(255,255,255,.28)" : "rgba(0,0,0,.22)";
    context.lineWidth = Math.max(1, window.devicePixelRatio || 1);
    context.strokeRect(-9, y, canvas.width + 18, high);
    context.strokeRect(x, -9, wide, canvas.height + 18);
    context.strokeStyle = dark ? "#fff" : "#000";
    context.strokeRect(x - 1, y - 1, wide + 2, high + 2);
  }
}
