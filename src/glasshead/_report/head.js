// One head at a time: W, its singular values, v, and what the head looks at.
const CROWD = 120; // points that a chart has room for at their full size

function weights(data) {
  const place = make("div"),
    matrices = new Map();
  const matrix = (h, name) => {
    const key = `${h} ${name}`;
    if (!matrices.has(key)) matrices.set(key, matrixOf(data.heads[h][data.heads[h][name].like || name]));
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
    place.replaceChildren(
      maps[0].node,
      make("div", { class: "pair" }, spectrum(head, h, data.heads.length, data.dim), many ? null : values),
      ...(many
        ? [
            make("h3", { class: "within" }, "Values v"),
            make(
              "p",
              { class: "about" },
              "What a token adds to each number of the answer when all attention is on it.",
            ),
            values.node,
          ]
        : []),
      make("h3", { class: "within" }, "What the head looks at"),
      make(
        "p",
        { class: "about" },
        "Attention of the recovered model on three made-up sequences: row n says how much token n takes from each token before it.",
      ),
      maps[1].node,
    );
  };
  const chooser = data.heads.length > 1 ? headChooser(data, show) : null;
  show(0);
  const beside = data.heads[0].true
    ? ", beside the one in the target\u2019s own file. The difference"
    : ". The difference to the one in the target\u2019s own file";
  return part(
    "weights",
    "The weights",
    `W as it was read through the answers${data.heads[0].difference ? `${beside} is drawn on its own scale, or it would be blank` : ""}.`,
    chooser,
    place,
  );
}

function headChooser(data, show) {
  const tiny = (head, h) => {
    const canvas = make("canvas", { width: 104, height: 104, "aria-hidden": "true" }),
      matrix = glimpse(head.W, 52);
    const paint = () => colourIn(canvas, { matrix, limit: head.largest });
    painters.add(paint);
    window.setTimeout(paint); // after the first head is there
    return make(
      "label",
      {},
      make("input", {
        type: "radio",
        name: "head",
        value: h,
        checked: h === 0,
        "aria-label": `Head ${h + 1}, rank ${head.rank}`,
        onchange: () => show(h),
      }),
      canvas,
      make("span", {}, String(h + 1)),
    );
  };
  return make(
    "fieldset",
    { class: "heads" },
    make("legend", {}, `Head (of ${data.heads.length})`),
    data.heads.map(tiny),
  );
}

function weightMaps(head, matrix) {
  const panels = [{ key: "W", name: "Recovered", matrix: matrix("W"), limit: head.largest }];
  if (head.true) {
    const note = head.true.like ? "(the same numbers to float32)" : "";
    panels.push({ key: "true", name: "True", note, matrix: matrix("true"), limit: head.largest });
  }
  if (head.difference) {
    const times =
      head.largest_error > 0
        ? `enlarged ${say(head.largest / head.largest_error, 2)} times`
        : "nothing: equal to the last bit";
    const left = head.true ? "" : "; the true W is left out: the page would be too large";
    panels.push({
      key: "difference",
      name: "Difference",
      note: times + left,
      matrix: matrix("difference"),
      limit: head.largest_error,
      digits: 3,
    });
  }
  for (const panel of panels)
    if (panel.matrix.block > 1)
      panel.note = `${panel.note || ""} (largest of each ${panel.matrix.block} \u00d7 ${panel.matrix.block})`;
  return new HeatMaps("weights-maps", panels, { label: "W", where: (i, j) => `row ${i + 1}, column ${j + 1}` });
}

function patternMaps(patterns, h) {
  const panels = patterns.map(({ name, weights }, k) => {
    const rows = weights[h],
      n = rows.length,
      values = new Float32Array(n * n).fill(NaN);
    rows.forEach((row, i) =>
      row.forEach((w, j) => {
        values[i * n + j] = w;
      }),
    );
    return {
      key: `pattern-${k}`,
      name: name[0].toUpperCase() + name.slice(1),
      matrix: { rows: n, columns: n, block: 1, wide: n, values },
      limit: 1,
      palette: "weight",
      digits: 3,
    };
  });
  return new HeatMaps("pattern-maps", panels, {
    label: "Attention pattern",
    where: (i, j) => (j > i ? `token ${i + 1} comes before token ${j + 1}` : `token ${i + 1} at token ${j + 1}`),
    hint: "The stronger the colour, the more of it; rows add up to 1.",
  });
}

function spectrum(head, h, count, dim) {
  if (!head.singular.length) return half("Singular values", "W is too large to decompose it for a page.");
  const points = (values, what) =>
    values.map((s, k) => ({ x: k + 1, y: s, words: [`singular value ${k + 1}`, [what, s]] })).filter((p) => p.y > 0);
  const all = [...head.singular, ...(head.true_singular || [])],
    cut = head.rank + 0.5;
  const found = points(head.singular, "recovered"),
    many = head.singular.length > CROWD;
  const series = [
    { name: "recovered", colour: 0, size: many ? 2.2 : 4, points: found.slice(0, head.rank) },
    {
      name: "beyond the rank",
      colour: 5,
      shape: many ? "circle" : "cross",
      size: many ? 1.6 : 4,
      points: found.slice(head.rank),
    },
  ];
  if (head.true_singular)
    series.unshift({
      name: "true",
      colour: 1,
      hollow: true,
      size: many ? 3.4 : 6.5,
      points: points(head.true_singular, "true"),
    });
  const chart = new Chart({
    label: `Singular values of W${count > 1 ? `, head ${h + 1}` : ""}`,
    summary: `${head.singular.length} values; the rank is ${head.rank}.`,
    series,
    x: { label: "number of the singular value", min: 0, max: Math.max(head.singular.length, 2) + 1 },
    y: { label: "singular value", ...decades(all) },
    rules: head.rank < head.singular.length ? [{ on: "x", at: cut, label: `rank ${head.rank}` }] : [],
  });
  const words =
    head.rank < head.singular.length
      ? "what is right of the line is rounding"
      : head.rank < dim
        ? "it was found as two factors, and has no others"
        : "it has full rank";
  return half("Singular values", `${plural(head.rank, "singular value")} make W; ${words}.`, chart.node);
}

function valuesOf(head, matrix) {
  const v = matrix("v"),
    true_v = head.true_v ? matrix("true_v") : null;
  if (v.columns > 1) {
    const limit = v.values.reduce((most, x) => Math.max(most, Math.abs(x)), 0);
    const panels = [
      {
        key: "v",
        name: "Recovered v",
        matrix: v,
        limit,
        note: v.block > 1 ? `(largest of each ${v.block} \u00d7 ${v.block})` : "",
      },
    ];
    if (true_v && true_v.block === v.block) panels.push({ key: "true_v", name: "True v", matrix: true_v, limit });
    return new HeatMaps("value-maps", panels, { label: "v", where: (i, j) => `entry ${i + 1}, output ${j + 1}` });
  }
  const points = (values, what) =>
    Array.from(values, (y, k) => ({ x: k + 1, y, words: [`v, entry ${k + 1}`, [what, y]] }));
  const series = [
    { name: "recovered", colour: 0, points: points(v.values, "recovered"), size: v.rows > CROWD ? 2 : 3.2 },
  ];
  if (true_v)
    series.unshift({
      name: "true",
      colour: 1,
      hollow: true,
      size: v.rows > CROWD ? 3.6 : 6,
      points: points(true_v.values, "true"),
    });
  const most = 1.08 * v.values.reduce((size, x) => Math.max(size, Math.abs(x)), 1e-300);
  const chart = new Chart({
    label: "Values v",
    series,
    x: { label: "entry", min: 0, max: v.rows + 1 },
    y: { label: "value", min: -most, max: most },
    rules: [{ on: "y", at: 0, label: "" }],
  });
  return half("Values v", "What a token adds to the answer when all attention is on it.", chart.node);
}
