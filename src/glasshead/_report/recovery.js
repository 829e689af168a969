// The page of a recovery: what was found, head by head, how sure that is, and what it cost.
function recoveryPage(data) {
  const found = data.recovery,
    heads = data.heads,
    several = heads.length > 1;
  const target = data.run ? make("code", {}, data.run.target) : data.model;
  const ranks = Array.isArray(found.rank) ? [...new Set(found.rank)].sort((a, b) => a - b) : [found.rank];
  const bounded = found.bound !== null;
  const sure =
    found.confidence === 1 ? "follows from the box\u2019s promise" : ["confidence ", numeral(found.confidence, 4)];
  return [
    hero(
      ["Recovery of ", target],
      data.headline,
      make(
        "p",
        { class: "lead" },
        data.headline.words,
        data.headline.value === null ? null : [" ", numeral(data.headline.value), "."],
      ),
      make("p", { class: "lead" }, "Why it stopped: ", found.reason.replace(/\.?$/, ".")),
    ),
    make(
      "dl",
      { class: "tiles" },
      tile("Queries", numeral(found.queries), [
        numeral(data.overhead, 4),
        " \u00d7 the information limit of ",
        numeral(found.limit),
      ]),
      tile(
        several ? "Heads" : "Rank of W",
        several ? numeral(found.heads) : numeral(ranks[0]),
        several
          ? [
              ranks.length > 1 ? `rank ${ranks[0]} to ${ranks[ranks.length - 1]}` : `rank ${ranks[0]}`,
              `, d = ${say(data.dim)}`,
            ]
          : `d = ${say(data.dim)}, ${found.family}`,
      ),
      data.distance === null ? null : tile("Distance to the truth", numeral(data.distance), "relative, W and v"),
      tile(
        found.confidence === 1 ? "Certified error of W" : "Bound on error of W",
        bounded ? numeral(found.bound) : "none",
        bounded ? ["at most, in Frobenius norm; ", sure] : "none comes with this family, or these answers",
      ),
      tile(
        "Fresh answers",
        found.residual === null ? "not checked" : numeral(found.residual),
        "largest error over largest answer",
      ),
      data.run && data.run.seconds !== null
        ? tile(
            "Time",
            [numeral(data.run.seconds), " s"],
            `with ${data.run.answers === "sign" ? "yes-or-no" : "number"} answers`,
          )
        : null,
    ),
    weights(data),
    part("evidence", "How sure it is", null, make("div", { class: "pair" }, certified(data), heldOut(data))),
    data.run && data.run.history.length > 1 ? part("cost", "What it cost", null, overTime(data)) : null,
    reading(READ_RECOVERY),
    reproduce(data.run ? data.run.command : null, found.family),
    fields({ ...found, checked: data.checked, model: data.model }),
  ];
}

function certified(data) {
  const found = data.recovery,
    rows = [
      ["W", found.bound, data.errors.W, data.norms.W],
      ["v", found.bound_v, data.errors.v, data.norms.v],
    ].filter(([, bound]) => bound !== null && bound > 0);
  if (!rows.length)
    return half(
      "Certified intervals",
      "There is no bound for this recovery: nothing was promised about the answers that would give one, or the family has none.",
    );
  const sizes = rows.flatMap(([, bound, error, norm]) => [bound, error, norm]).filter((x) => x > 0),
    x = decades(sizes, 0.8);
  const places = rows.map(([name], k) => [rows.length - k, name]);
  const point = (k, at, name, words) => ({
    x: at,
    y: places[k][0],
    words: [`${name} of ${places[k][1]}`, ["", at]],
    row: [`${name} of ${places[k][1]}`, at],
    ...words,
  });
  const chart = new Chart({
    label: "Certified intervals",
    height: 90 + 62 * rows.length,
    columns: ["what", "Frobenius norm"],
    summary: "How far off W and v can be, on a logarithmic axis.",
    series: [
      {
        kind: "span",
        name: "certified interval",
        colour: 2,
        shape: "square",
        quiet: true,
        points: rows.map(([name, bound], k) => ({
          x: x.min,
          to: bound,
          y: places[k][0],
          row: [`bound on the error of ${name}`, bound],
        })),
      },
      {
        name: "bound",
        colour: 2,
        shape: "square",
        size: 4.5,
        points: rows.map(([, bound], k) => point(k, bound, "bound on the error")),
      },
      {
        name: "error, measured",
        colour: 1,
        points: rows.flatMap(([, , error], k) => (error > 0 ? [point(k, error, "measured error")] : [])),
        size: 5,
      },
      {
        name: "size of what was found",
        colour: 5,
        shape: "diamond",
        points: rows.flatMap(([, , , norm], k) => (norm > 0 ? [point(k, norm, "norm")] : [])),
        size: 5,
      },
    ],
    x: { label: "Frobenius norm", ...x },
    y: { label: "", min: 0.4, max: rows.length + 0.6, marks: places },
  });
  const words =
    found.confidence === 1
      ? "The truth lies within the shaded distance, as long as the box keeps its promise."
      : `The truth lies within the shaded distance with a confidence of ${say(found.confidence, 4)}.`;
  return half("Certified intervals", words, chart.node);
}

function heldOut(data) {
  const checked = data.recovery.checked,
    pairs = checked ? (checked.predicted || []).map((p, k) => [p, checked.answered[k]]) : [];
  if (!pairs.length)
    return half(
      "Fresh answers",
      data.checked || "Fresh answers were compared, but the numbers are not kept in this folder.",
    );
  const all = pairs.flat(),
    low = Math.min(...all),
    high = Math.max(...all),
    room = 0.06 * (high - low || 1);
  const range = { min: low - room, max: high + room };
  const chart = new Chart({
    label: "Predicted and answered",
    summary: `${pairs.length} numbers.`,
    columns: ["what", "predicted", "answered"],
    series: [
      {
        kind: "line",
        colour: 5,
        thin: true,
        quiet: true,
        points: [
          { x: range.min, y: range.min, row: ["diagonal from", range.min, range.min] },
          { x: range.max, y: range.max, row: ["diagonal to", range.max, range.max] },
        ],
      },
      {
        colour: 0,
        points: pairs.map(([x, y], k) => ({
          x,
          y,
          words: [`fresh answer ${k + 1}`, ["predicted", x], ["answered", y], ["off by", y - x]],
          row: [`fresh answer ${k + 1}`, x, y],
        })),
      },
    ],
    x: { label: "predicted by the recovered model", ...range },
    y: { label: "answered by the box", ...range },
  });
  return half("Fresh answers", data.checked, chart.node);
}

function overTime(data) {
  const history = data.run.history,
    limit = data.recovery.limit,
    bits = data.run.answers === "sign";
  const stages = [];
  history.forEach(([seconds, queries, what], k) => {
    if (!stages.length || stages[stages.length - 1].name !== what)
      stages.push({
        name: what,
        kind: "line",
        colour: stages.length % 6,
        points: k ? [at(history[k - 1], what)] : [at([0, 0], what)],
      });
    stages[stages.length - 1].points.push(at([seconds, queries], what));
  });
  function at([seconds, queries], what) {
    return {
      x: seconds,
      y: queries,
      words: [what, ["queries", queries], ["seconds", seconds]],
      row: [what, seconds, queries],
    };
  }
  const most = Math.max(data.recovery.queries, limit);
  const chart = new Chart({
    label: "Queries over time",
    summary: `${say(data.recovery.queries)} queries; the limit is ${say(limit)}.`,
    series: stages,
    height: 340,
    x: { label: "seconds", min: 0, max: history[history.length - 1][0] * 1.02 || 1 },
    y: { label: "queries", min: 0, max: 1.12 * most },
    rules: [{ on: "y", at: limit, label: `information limit: ${say(limit)}${bits ? " bits" : ""}`, end: "left" }],
    columns: ["what for", "seconds", "queries"],
  });
  return half(
    "Queries over time",
    "No learner can do with fewer answers than there are free parameters: the dashed line. What is above it are pilots and checks.",
    chart.node,
  );
}

const READ_RECOVERY = [
  [
    "The number on top",
    "How many leading digits are right, judged by the best there is: the true model where it is known, else the certified bound, else fresh answers.",
  ],
  [
    "Information limit",
    "The free parameters over the numbers per answer. Fewer queries cannot determine the weights, whoever asks them.",
  ],
  [
    "Certified",
    "The bound follows from what the box promises about its answers. It needs no truth to compare with, and no luck.",
  ],
  [
    "Singular values",
    "The recovered W is a sum of as many outer products as there are points left of the line; that is its rank.",
  ],
  ["Fresh answers", "Sequences that were not used for learning. Points on the diagonal were predicted right."],
  [
    "What nobody can see",
    "The order of heads, and the basis inside a head (Q and K as such): different parameters with the same W and v answer alike.",
  ],
];
