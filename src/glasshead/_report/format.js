// Numbers as people read them, and elements made of text only: nothing that came from a target is ever parsed as HTML.
const RAISED = {
  "-": "\u207b",
  0: "\u2070",
  1: "\u00b9",
  2: "\u00b2",
  3: "\u00b3",
  4: "\u2074",
  5: "\u2075",
  6: "\u2076",
  7: "\u2077",
  8: "\u2078",
  9: "\u2079",
};
const MINUS = "\u2212",
  THIN = "\u202f";

function say(x, digits = 3) {
  if (x === null || x === undefined) return "not known";
  if (typeof x !== "number") return String(x);
  if (Number.isInteger(x) && Math.abs(x) < 1e15) return x.toLocaleString("en-US").replace("-", MINUS);
  const size = Math.abs(x);
  if (size >= 1e-3 && size < 1e6) {
    const short = Number(x.toPrecision(digits));
    return short.toLocaleString("en-US", { maximumSignificantDigits: digits }).replace("-", MINUS);
  }
  const [mantissa, power] = x.toExponential(digits - 1).split("e");
  const digitsOf = mantissa.includes(".") ? mantissa.replace(/\.?0+$/, "") : mantissa;
  const raised = [...power.replace("+", "")].map((c) => RAISED[c]).join("");
  return `${digitsOf.replace("-", MINUS)}${THIN}\u00d7${THIN}10${raised}`;
}

function adopt(node, attributes, children) {
  for (const [name, value] of Object.entries(attributes || {})) {
    if (value === null || value === undefined || value === false) continue;
    if (name.startsWith("on")) node.addEventListener(name.slice(2), value);
    else node.setAttribute(name, value === true ? "" : value);
  }
  node.append(...children.flat(Infinity).filter((child) => child !== null && child !== undefined && child !== false));
  return node;
}

const make = (tag, attributes, ...children) => adopt(document.createElement(tag), attributes, children);
const sketch = (tag, attributes, ...children) =>
  adopt(document.createElementNS("http://www.w3.org/2000/svg", tag), attributes, children);

// A number on the page, with all its digits for those who point at it and for tests.
function numeral(x, digits = 3) {
  if (typeof x !== "number") return make("span", { class: "number" }, say(x, digits));
  return make("span", { class: "number", "data-value": String(x), title: String(x) }, say(x, digits));
}

function dataTable(caption, columns, rows) {
  const region = make("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": caption });
  const head = make(
    "tr",
    {},
    columns.map((name) => make("th", { scope: "col" }, name)),
  );
  const cell = (x) => make("td", {}, typeof x === "number" ? numeral(x, 6) : say(x));
  const fill = () => {
    if (region.firstChild) return;
    region.append(
      make(
        "table",
        {},
        make("caption", { class: "hidden" }, caption),
        make("thead", {}, head),
        make(
          "tbody",
          {},
          rows().map((row) => make("tr", {}, row.map(cell))),
        ),
      ),
    );
  };
  return make("details", { ontoggle: fill }, make("summary", {}, "Show the numbers"), region);
}

function floats(text) {
  const bytes = Uint8Array.from(atob(text), (c) => c.charCodeAt(0));
  return new Float32Array(bytes.buffer);
}

// { rows, columns, block, wide, values }: entry (i, j) is values[floor(i / block) * wide + floor(j / block)].
function matrixOf(pack) {
  const [rows, columns] = pack.shape,
    block = pack.block;
  const high = Math.ceil(rows / block),
    wide = Math.ceil(columns / block);
  if (pack.dense !== undefined) return { rows, columns, block, wide, values: floats(pack.dense) };
  const left = floats(pack.left),
    right = floats(pack.right),
    rank = left.length / rows;
  const values = new Float32Array(high * wide);
  for (let i = 0; i < rows; i++) {
    const row = values.subarray(i * wide, (i + 1) * wide);
    for (let k = 0; k < rank; k++) {
      const factor = left[i * rank + k],
        other = right.subarray(k * columns, (k + 1) * columns);
      for (let j = 0; j < columns; j++) row[j] += factor * other[j];
    }
  }
  return { rows, columns, block, wide, values };
}

// At most `most` rows and columns of it, evenly chosen: for a small picture nothing more has to be multiplied.
function glimpse(pack, most) {
  const [rows, columns] = pack.shape;
  if (pack.left === undefined || Math.max(rows, columns) <= most) return matrixOf(pack);
  const left = floats(pack.left),
    right = floats(pack.right),
    rank = left.length / rows,
    high = Math.min(rows, most),
    wide = Math.min(columns, most);
  const values = new Float32Array(high * wide);
  for (let i = 0; i < high; i++)
    for (let j = 0; j < wide; j++) {
      const r = Math.floor((i * rows) / high),
        c = Math.floor((j * columns) / wide);
      let sum = 0;
      for (let k = 0; k < rank; k++) sum += left[r * rank + k] * right[k * columns + c];
      values[i * wide + j] = sum;
    }
  return { rows: high, columns: wide, block: 1, wide, values };
}

const entry = (matrix, i, j) =>
  matrix.values[Math.floor(i / matrix.block) * matrix.wide + Math.floor(j / matrix.block)];
const plural = (n, word) => `${say(n)} ${word}${n === 1 ? "" : "s"}`;
