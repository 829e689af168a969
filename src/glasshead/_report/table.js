// A table that can be sorted by any column and filtered by words, by a choice and by a check box.
class SortedTable {
  // columns: [{ key, name, value: row => ..., cell: row => node, right }]; the first column names its row.
  constructor(caption, columns, rows, filters) {
    Object.assign(this, { columns, rows, filters, by: null, down: false });
    this.heads = columns.map((column) =>
      make(
        "th",
        { scope: "col", role: "columnheader", class: column.right ? "right" : null },
        make("button", { type: "button", class: "sort", onclick: () => this.sort(column.key) }, column.name),
      ),
    );
    this.body = make("tbody", { role: "rowgroup" });
    this.lines = rows.map((row) =>
      make(
        "tr",
        { role: "row" },
        columns.map((column, k) =>
          k === 0
            ? make("th", { scope: "row", role: "rowheader" }, column.cell(row))
            : make(
                "td",
                { role: "cell", class: column.right ? "right" : null, "data-name": column.name },
                column.cell(row),
              ),
        ),
      ),
    );
    this.count = make("output", { "aria-live": "polite" });
    const order = make(
      "select",
      { onchange: (event) => this.sort(event.target.value, false) },
      make("option", { value: "" }, "as in the audit"),
      columns.map((column) => make("option", { value: column.key }, column.name)),
    );
    this.order = order;
    this.node = make(
      "div",
      { class: "card" },
      make(
        "div",
        { class: "controls" },
        filters.map((filter) => filter.node),
        make("label", {}, "Sort by", order),
        this.count,
      ),
      make(
        "table",
        { class: "settings", role: "table" },
        make("caption", { class: "hidden" }, caption),
        make("thead", { role: "rowgroup" }, make("tr", { role: "row" }, this.heads)),
        this.body,
      ),
    );
    for (const filter of filters) filter.node.addEventListener("input", () => this.fill());
    this.fill();
  }

  sort(key, turn = true) {
    this.down = turn && this.by === key ? !this.down : false;
    this.by = key || null;
    this.order.value = key;
    this.columns.forEach((column, k) => {
      if (column.key === this.by) this.heads[k].setAttribute("aria-sort", this.down ? "descending" : "ascending");
      else this.heads[k].removeAttribute("aria-sort");
    });
    this.fill();
  }

  fill() {
    const shown = this.rows
      .map((row, k) => k)
      .filter((k) => this.filters.every((filter) => filter.passes(this.rows[k])));
    const column = this.columns.find((one) => one.key === this.by);
    if (column) {
      const value = (k) => column.value(this.rows[k]),
        sign = this.down ? -1 : 1;
      const known = (x) => x !== null && x !== undefined;
      shown.sort((a, b) => {
        // what is not known comes last, whichever way
        const [x, y] = [value(a), value(b)];
        if (!known(x) || !known(y)) return Number(known(y)) - Number(known(x));
        return sign * (typeof x === "string" ? x.localeCompare(y) : x - y);
      });
    }
    this.body.replaceChildren(...shown.map((k) => this.lines[k]));
    this.count.textContent = `${shown.length} of ${plural(this.rows.length, "setting")}`;
  }
}

function searchFilter(name, text) {
  const field = make("input", { type: "search", placeholder: "rounded, sign, noise \u2026" });
  return {
    node: make("label", {}, name, field),
    passes: (row) => text(row).toLowerCase().includes(field.value.trim().toLowerCase()),
  };
}

function choiceFilter(name, choices, value) {
  const field = make(
    "select",
    {},
    make("option", { value: "" }, "all"),
    choices.map((one) => make("option", { value: one }, one)),
  );
  return { node: make("label", {}, name, field), passes: (row) => !field.value || value(row) === field.value };
}

function checkFilter(name, value) {
  const field = make("input", { type: "checkbox" });
  return { node: make("label", { class: "check" }, field, name), passes: (row) => !field.checked || value(row) };
}
