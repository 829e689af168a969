// The page of a recovery: what was found, head by head, how sure that is, and what it cost.
function tile(name, value, aside) {
  const long = typeof value === "string" && value.length > 10;
  return make("div", {}, make("dt", {}, name), make("dd", { class: long ? "value long" : "value" }, value), aside ? make("dd", { class: "aside" }, aside) : null);
}

const CROWD = 120; // points that a chart has room for at their full size
const SHORT = { weights: "Weights", evidence: "Evidence", cost: "Cost", reading: "How to read", reproduce: "Command", numbers: "Numbers", threat: "Threat", leak: "Leak", "trade-off": "Trade-off", settings: "Settings", queries: "Queries", ranking: "What held" };

function part(id, title, about, ...children) {
  return make("section", { id, "aria-labelledby": `${id}-title`, "data-title": SHORT[id] || title },
    make("h2", { id: `${id}-title` }, title), about ? make("p", { class: "about" }, about) : null, children);
}

const half = (title, about, ...children) =>
  make("div", { class: "card" }, make("h3", {}, title), make("p", { class: "about" }, about), children);

function hero(eyebrow, headline, ...lead) {
  return make("div", { class: "hero" }, make("p", { class: "eyebrow" }, eyebrow),
    make("h1", {}, make("span", { class: "big" }, headline.big), headline.what), lead);
}

function recoveryPage(data) {
  const found = data.recovery, heads = data.heads, several = heads.length > 1;
  const target = data.run ? make("code", {}, data.run.target) : data.model;
  const ranks = Array.isArray(found.rank) ? [...new Set(found.rank)].sort((a, b) => a - b) : [found.rank];
  const bounded = found.bound !== null;
  const sure = found.confidence === 1 ? "follows from the box\u2019s promise" : ["confidence ", numeral(found.confidence, 4)];
  return [
    hero(["Recovery of ", target], data.headline,
      make("p", { class: "lead" }, data.headline.words, data.headline.value === null ? null : [" ", numeral(data.headline.value), "."]),
      make("p", { class: "lead" }, "Why it stopped: ", found.reason.replace(/\.?$/, "."))),
    make("dl", { class: "tiles" },
      tile("Queries", numeral(found.queries), [numeral(data.overhead, 4), " \u00d7 the information limit of ", numeral(found.limit)]),
      tile(several ? "Heads" : "Rank of W", several ? numeral(found.heads) : numeral(ranks[0]),
        several ? [ranks.length > 1 ? `rank ${ranks[0]} to ${ranks[ranks.length - 1]}` : `rank ${ranks[0]}`, `, d = ${say(data.dim)}`] : `d = ${say(data.dim)}, ${found.family}`),
      data.distance === null ? null : tile("Distance to the truth", numeral(data.distance), "relative, W and v"),
      tile(found.confidence === 1 ? "Certified error of W" : "Bound on error of W", bounded ? numeral(found.bound) : "none", bounded ? ["at most, in Frobenius norm; ", sure] : "none comes with this family, or these answers"),
      tile("Fresh answers", found.residual === null ? "not checked" : numeral(found.residual), "largest error over largest answer"),
      data.run && data.run.seconds !== null ? tile("Time", [numeral(data.run.seconds), " s"], `with ${data.run.answers === "sign" ? "yes-or-no" : "number"} answers`) : null),
    weights(data),
    part("evidence", "How sure it is", null, make("div", { class: "pair" }, certified(data), heldOut(data))),
    data.run && data.run.history.length > 1 ? part("cost", "What it cost", null, overTime(data)) : null,
    reading(READ_RECOVERY),
    reproduce(data.run ? data.run.command : null, found.family),
    fields({ ...found, checked: data.checked, model: data.model }),
  ];
}

// W, singular values, attention and v of one head at a time.
function weights(data) {
  const place = make("div"), matrices = new Map();
  const matrix = (h, name) => {
    const key = `${h} ${name}`;
    if (!matrices.has(key)) matrices.set(key, matrixOf(data.heads[h][name]));
    return matrices.get(key);
  };
  let maps = [];
  const show = (h) => {
    maps.forEach((one) => one.remove());
    const head = data.heads[h];
    maps = [weightMaps(head, (name) => matrix(h, name)), patternMaps(data.patterns, h)];
    const values = head.v ? valuesOf(head, (name) => matrix(h, name)) : null;
    const many = values instanceof HeatMaps;
    if (many) maps.push(values);
    place.replaceChildren(maps[0].node, make("div", { class: "pair" }, spectrum(head, h, data.heads.length, data.dim), many ? null : values),
      ...(many ? [make("h3", { class: "within" }, "Values v"), make("p", { class: "about" }, "What a token adds to each number of the answer when all attention is on it."), values.node] : []),
      make("h3", { class: "within" }, "What the head looks at"),
      make("p", { class: "about" }, "Attention of the recovered model on three made-up sequences: row n says how much token n takes from each token before it."),
      maps[1].node);
  };
  const chooser = data.heads.length > 1 ? headChooser(data, show) : null;
  show(0);
  const beside = data.heads[0].true ? ", beside the one in the target\u2019s own file. The difference" : ". The difference to the one in the target\u2019s own file";
  return part("weights", "The weights", `W as it was read through the answers${data.heads[0].difference ? `${beside} is drawn on its own scale, or it would be blank` : ""}.`, chooser, place);
}

function headChooser(data, show) {
  const tiny = (head, h) => {
    const canvas = make("canvas", { width: 104, height: 104, "aria-hidden": "true" }), matrix = glimpse(head.W, 52);
    const paint = () => colourIn(canvas, { matrix, limit: head.largest });
    painters.add(paint);
    window.setTimeout(paint); // after the first head is there
    return make("label", {}, make("input", { type: "radio", name: "head", value: h, checked: h === 0, "aria-label": `Head ${h + 1}, rank ${head.rank}`, onchange: () => show(h) }), canvas, make("span", {}, String(h + 1)));
  };
  return make("fieldset", { class: "heads" }, make("legend", {}, `Head (of ${data.heads.length})`), data.heads.map(tiny));
}

function weightMaps(head, matrix) {
  const panels = [{ key: "W", name: "Recovered", matrix: matrix("W"), limit: head.largest }];
  if (head.true) panels.push({ key: "true", name: "True", matrix: matrix("true"), limit: head.largest });
  if (head.difference) {
    const times = head.largest_error > 0 ? `enlarged ${say(head.largest / head.largest_error, 2)} times` : "nothing: equal to the last bit";
    const left = head.true ? "" : "; the true W is left out: the page would be too large";
    panels.push({ key: "difference", name: "Difference", note: times + left, matrix: matrix("difference"), limit: head.largest_error, digits: 3 });
  }
  for (const panel of panels) if (panel.matrix.block > 1) panel.note = `${panel.note || ""} (largest of each ${panel.matrix.block} \u00d7 ${panel.matrix.block})`;
  return new HeatMaps("weights-maps", panels, { label: "W", where: (i, j) => `row ${i + 1}, column ${j + 1}` });
}

function patternMaps(patterns, h) {
  const panels = patterns.map(({ name, weights }, k) => {
    const rows = weights[h], n = rows.length, values = new Float32Array(n * n).fill(NaN);
    rows.forEach((row, i) => row.forEach((w, j) => { values[i * n + j] = w; }));
    return { key: `pattern-${k}`, name: name[0].toUpperCase() + name.slice(1), matrix: { rows: n, columns: n, block: 1, wide: n, values }, limit: 1, palette: "weight", digits: 3 };
  });
  return new HeatMaps("pattern-maps", panels, { label: "Attention pattern", where: (i, j) => (j > i ? `token ${i + 1} comes before token ${j + 1}` : `token ${i + 1} at token ${j + 1}`), hint: "The stronger the colour, the more of it; rows add up to 1." });
}

function spectrum(head, h, count, dim) {
  if (!head.singular.length) return half("Singular values", "W is too large to decompose it for a page.");
  const points = (values, what) => values.map((s, k) => ({ x: k + 1, y: s, words: [`singular value ${k + 1}`, [what, s]] })).filter((p) => p.y > 0);
  const all = [...head.singular, ...(head.true_singular || [])], cut = head.rank + 0.5;
  const found = points(head.singular, "recovered"), many = head.singular.length > CROWD;
  const series = [
    { name: "recovered", colour: 0, size: many ? 2.2 : 4, points: found.slice(0, head.rank) },
    { name: "beyond the rank", colour: 5, shape: many ? "circle" : "cross", size: many ? 1.6 : 4, points: found.slice(head.rank) },
  ];
  if (head.true_singular) series.unshift({ name: "true", colour: 1, hollow: true, size: many ? 3.4 : 6.5, points: points(head.true_singular, "true") });
  const chart = new Chart({ label: `Singular values of W${count > 1 ? `, head ${h + 1}` : ""}`, summary: `${head.singular.length} values; the rank is ${head.rank}.`, series,
    x: { label: "number of the singular value", min: 0, max: Math.max(head.singular.length, 2) + 1 }, y: { label: "singular value", ...decades(all) },
    rules: head.rank < head.singular.length ? [{ on: "x", at: cut, label: `rank ${head.rank}` }] : [] });
  const words = head.rank < head.singular.length ? "what is right of the line is rounding" : head.rank < dim ? "it was found as two factors, and has no others" : "it has full rank";
  return half("Singular values", `${plural(head.rank, "singular value")} make W; ${words}.`, chart.node);
}

function valuesOf(head, matrix) {
  const v = matrix("v"), true_v = head.true_v ? matrix("true_v") : null;
  if (v.columns > 1) {
    const limit = v.values.reduce((most, x) => Math.max(most, Math.abs(x)), 0);
    const panels = [{ key: "v", name: "Recovered v", matrix: v, limit, note: v.block > 1 ? `(largest of each ${v.block} \u00d7 ${v.block})` : "" }];
    if (true_v && true_v.block === v.block) panels.push({ key: "true_v", name: "True v", matrix: true_v, limit });
    return new HeatMaps("value-maps", panels, { label: "v", where: (i, j) => `entry ${i + 1}, output ${j + 1}` });
  }
  const points = (values, what) => Array.from(values, (y, k) => ({ x: k + 1, y, words: [`v, entry ${k + 1}`, [what, y]] }));
  const series = [{ name: "recovered", colour: 0, points: points(v.values, "recovered"), size: v.rows > CROWD ? 2 : 3.2 }];
  if (true_v) series.unshift({ name: "true", colour: 1, hollow: true, size: v.rows > CROWD ? 3.6 : 6, points: points(true_v.values, "true") });
  const most = 1.08 * v.values.reduce((size, x) => Math.max(size, Math.abs(x)), 1e-300);
  const chart = new Chart({ label: "Values v", series, x: { label: "entry", min: 0, max: v.rows + 1 }, y: { label: "value", min: -most, max: most }, rules: [{ on: "y", at: 0, label: "" }] });
  return half("Values v", "What a token adds to the answer when all attention is on it.", chart.node);
}

function certified(data) {
  const found = data.recovery, rows = [["W", found.bound, data.errors.W, data.norms.W], ["v", found.bound_v, data.errors.v, data.norms.v]].filter(([, bound]) => bound !== null && bound > 0);
  if (!rows.length) return half("Certified intervals", "There is no bound for this recovery: nothing was promised about the answers that would give one, or the family has none.");
  const sizes = rows.flatMap(([, bound, error, norm]) => [bound, error, norm]).filter((x) => x > 0), x = decades(sizes, 0.8);
  const places = rows.map(([name], k) => [rows.length - k, name]);
  const point = (k, at, name, words) => ({ x: at, y: places[k][0], words: [`${name} of ${places[k][1]}`, ["", at]], row: [`${name} of ${places[k][1]}`, at], ...words });
  const chart = new Chart({ label: "Certified intervals", height: 90 + 62 * rows.length, columns: ["what", "Frobenius norm"], summary: "How far off W and v can be, on a logarithmic axis.",
    series: [
      { kind: "span", name: "certified interval", colour: 2, shape: "square", quiet: true, points: rows.map(([name, bound], k) => ({ x: x.min, to: bound, y: places[k][0], row: [`bound on the error of ${name}`, bound] })) },
      { name: "bound", colour: 2, shape: "square", size: 4.5, points: rows.map(([, bound], k) => point(k, bound, "bound on the error")) },
      { name: "error, measured", colour: 1, points: rows.flatMap(([, , error], k) => (error > 0 ? [point(k, error, "measured error")] : [])), size: 5 },
      { name: "size of what was found", colour: 5, shape: "diamond", points: rows.flatMap(([, , , norm], k) => (norm > 0 ? [point(k, norm, "norm")] : [])), size: 5 },
    ],
    x: { label: "Frobenius norm", ...x }, y: { label: "", min: 0.4, max: rows.length + 0.6, marks: places } });
  const words = found.confidence === 1 ? "The truth lies within the shaded distance, as long as the box keeps its promise." : `The truth lies within the shaded distance with a confidence of ${say(found.confidence, 4)}.`;
  return half("Certified intervals", words, chart.node);
}

function heldOut(data) {
  const checked = data.recovery.checked, pairs = checked ? (checked.predicted || []).map((p, k) => [p, checked.answered[k]]) : [];
  if (!pairs.length) return half("Fresh answers", data.checked || "Fresh answers were compared, but the numbers are not kept in this folder.");
  const all = pairs.flat(), low = Math.min(...all), high = Math.max(...all), room = 0.06 * (high - low || 1);
  const range = { min: low - room, max: high + room };
  const chart = new Chart({ label: "Predicted and answered", summary: `${pairs.length} numbers.`, columns: ["what", "predicted", "answered"],
    series: [{ kind: "line", colour: 5, thin: true, quiet: true, points: [{ x: range.min, y: range.min, row: ["diagonal from", range.min, range.min] }, { x: range.max, y: range.max, row: ["diagonal to", range.max, range.max] }] },
      { colour: 0, points: pairs.map(([x, y], k) => ({ x, y, words: [`fresh answer ${k + 1}`, ["predicted", x], ["answered", y], ["off by", y - x]], row: [`fresh answer ${k + 1}`, x, y] })) }],
    x: { label: "predicted by the recovered model", ...range }, y: { label: "answered by the box", ...range } });
  return half("Fresh answers", data.checked, chart.node);
}

function overTime(data) {
  const history = data.run.history, limit = data.recovery.limit, bits = data.run.answers === "sign";
  const stages = [];
  history.forEach(([seconds, queries, what], k) => {
    if (!stages.length || stages[stages.length - 1].name !== what) stages.push({ name: what, kind: "line", colour: stages.length % 6, points: k ? [at(history[k - 1], what)] : [at([0, 0], what)] });
    stages[stages.length - 1].points.push(at([seconds, queries], what));
  });
  function at([seconds, queries], what) { return { x: seconds, y: queries, words: [what, ["queries", queries], ["seconds", seconds]], row: [what, seconds, queries] }; }
  const most = Math.max(data.recovery.queries, limit);
  const chart = new Chart({ label: "Queries over time", summary: `${say(data.recovery.queries)} queries; the limit is ${say(limit)}.`, series: stages, height: 340,
    x: { label: "seconds", min: 0, max: history[history.length - 1][0] * 1.02 || 1 }, y: { label: "queries", min: 0, max: 1.12 * most },
    rules: [{ on: "y", at: limit, label: `information limit: ${say(limit)}${bits ? " bits" : ""}`, end: "left" }], columns: ["what for", "seconds", "queries"] });
  return half("Queries over time", "No learner can do with fewer answers than there are free parameters: the dashed line. What is above it are pilots and checks.", chart.node);
}

const READ_RECOVERY = [
  ["The number on top", "How many leading digits are right, judged by the best there is: the true model where it is known, else the certified bound, else fresh answers."],
  ["Information limit", "The free parameters over the numbers per answer. Fewer queries cannot determine the weights, whoever asks them."],
  ["Certified", "The bound follows from what the box promises about its answers. It needs no truth to compare with, and no luck."],
  ["Singular values", "The recovered W is a sum of as many outer products as there are points left of the line; that is its rank."],
  ["Fresh answers", "Sequences that were not used for learning. Points on the diagonal were predicted right."],
  ["What nobody can see", "The order of heads, and the basis inside a head (Q and K as such): different parameters with the same W and v answer alike."],
];

function reading(entries) {
  return part("reading", "How to read this report", null, make("dl", { class: "read" }, entries.map(([name, words]) => make("div", {}, make("dt", {}, name), make("dd", {}, words)))));
}

function reproduce(command, family) {
  if (!command) return part("reproduce", "Do it again", `This was saved from Python: gh.recover with the same oracle, family "${family}" and seed asks the same queries.`);
  const button = make("button", { type: "button", onclick: async () => {
    try { await navigator.clipboard.writeText(command); button.textContent = "Copied"; } catch { getSelection().selectAllChildren(code); }
  } }, "Copy");
  const code = make("pre", {}, command);
  return part("reproduce", "Do it again", "The same command asks the same queries; with --run it goes on in the same folder.", make("div", { class: "command" }, code, button));
}

function fields(all) {
  const cell = (x) => (Array.isArray(x) ? x.map((one, k) => [k ? ", " : "", numeral(one, 6)]) : typeof x === "number" ? numeral(x, 6) : typeof x === "boolean" ? (x ? "yes" : "no") : say(x));
  const rows = Object.entries(all).filter(([, value]) => value === null || typeof value !== "object" || Array.isArray(value));
  return part("numbers", "All numbers", null, make("table", { class: "fields" }, make("tbody", {}, rows.map(([name, value]) => make("tr", {}, make("th", { scope: "row" }, name.replaceAll("_", " ")), make("td", {}, cell(value)))))));
}
