// The page of an audit: what an endpoint gives away under each setting, and what would stop it at which price.
const OUTCOMES = { recovered: "recovered", partly: "copied", direction: "all but a length", refused: "not recovered", budget: "out of queries" };
const SHAPE_ORDER = ["circle", "square", "triangle", "diamond", "down", "cross"];

function badge(setting) {
  return make("span", { class: `badge ${setting.kept ? "kept" : "lost"}` }, OUTCOMES[setting.outcome] || setting.outcome);
}

// How wrong the attacker's copy is: what it answers or, where it cannot answer alone, its W.
const copyError = (setting) => (setting.function_error !== null ? setting.function_error : setting.error_W);

function auditPage(data) {
  const audit = data.audit, settings = audit.settings;
  const best = settings.find((one) => one.name === audit.ranking[0]);
  const lost = settings.filter((one) => !one.kept && one.queries !== null);
  const cheapest = lost.length ? lost.reduce((a, b) => (b.queries < a.queries ? b : a)) : null;
  return [
    hero(["Audit of ", make("code", {}, audit.target)], data.headline, make("p", { class: "lead" }, audit.recommendation)),
    make("dl", { class: "tiles" },
      tile("Target", audit.family, [numeral(audit.dim), " dimensions", audit.parameters === null ? null : [", ", numeral(audit.parameters), " free parameters"]]),
      tile("Cheapest theft", cheapest ? numeral(cheapest.queries) : "none", cheapest ? ["queries, ", cheapest.name, cheapest.cost === null ? null : [", ", numeral(cheapest.cost), " in money"]] : "no setting gives the model away"),
      tile("Best defence", best ? best.name : "none found", best ? ["answers are distorted by ", numeral(best.distortion)] : "none keeps a copy's error above the threshold"),
      tile("Threshold", numeral(audit.threshold), "of the spread of answers: a copy that is further off is none"),
      audit.budget === null ? null : tile("Budget", numeral(audit.budget), "queries for each setting"),
      tile("Technique", audit.technique, "MITRE ATLAS: extract the model")),
    part("threat", "Threat model", null, make("p", { class: "note" }, `What an attacker sees: ${audit.threat}. Every line below is a real run of glasshead against the target behind that defence; what glasshead did not recover, another method might.`)),
    audit.leak ? leakPart(audit.leak) : null,
    tradeOff(audit),
    part("settings", "Every setting", "Sort by any column, filter by words. Errors of W are relative to the true one, those of a copy to the spread of answers.", settingsTable(audit)),
    part("queries", "Queries for each setting", "On a logarithmic scale; what is green kept the model.", queryBars(audit)),
    ranking(audit),
    reading(READ_AUDIT),
    reproduce(audit.command, audit.family),
    fields({ version: audit.version, target: audit.target, family: audit.family, dim: audit.dim, parameters: audit.parameters, threshold: audit.threshold, budget: audit.budget, price_per_query: audit.price_per_query, technique: audit.technique }),
  ];
}

function leakPart(leak) {
  const all = leak.rows.flatMap((row) => row.singular);
  const longest = Math.max(1, ...leak.rows.map((row) => row.singular.length));
  const chart = new Chart({ label: "Singular values of the answers", summary: leak.rows.map((row) => row.words).join(" "), height: 320,
    series: leak.rows.map((row, k) => ({ name: row.answers, colour: k % 6, shape: SHAPE_ORDER[k % 6], size: 3.4, points: row.singular.map((s, n) => ({ x: n + 1, y: s > 0 ? s : null, words: [`${row.answers}, singular value ${n + 1}`, ["", s]], row: [row.answers, n + 1, s] })) })),
    rules: leak.rows.filter((row, k) => row.width !== null && leak.rows.findIndex((other) => other.width === row.width) === k).map((row) => ({ on: "x", at: row.width + 0.5, label: `width ${say(row.width)}` })),
    x: { label: "number of the singular value", min: 0, max: longest + 1 }, y: { label: "singular value", ...decades(all) } });
  return part("leak", "What any answers leak", ["Before any chosen vector: ", numeral(leak.queries), " answers of ", numeral(leak.outputs), " numbers each show the hidden width by their rank, and the output projection up to a linear map."],
    make("div", { class: "card" }, chart.node, make("ul", { class: "leaks" }, leak.rows.map((row) => make("li", {}, make("strong", {}, `${row.answers}: `), row.words)))));
}

function tradeOff(audit) {
  const settings = audit.settings.filter((one) => one.distortion !== null), groups = [...new Set(settings.map((one) => one.group))];
  const errors = settings.map(copyError).filter((x) => x > 0), y = decades([...errors, audit.threshold], 0.5);
  const moved = settings.map((one) => one.distortion).filter((x) => x > 0), x = decades(moved, 0.5);
  const nothing = settings.some((one) => copyError(one) === null || !(one.distortion > 0));
  const left = x.min / 10 ** 0.6, top = y.max * 10 ** (0.09 * Math.log10(y.max / y.min) + 0.2);
  const marks = (range, from) => ticks({ low: Math.log10(range.min), high: Math.log10(range.max), log: true }, from).map((t) => [t, tickLabel(t)]);
  const at = (one) => ({ x: one.distortion > 0 ? one.distortion : left, y: copyError(one) === null ? top : Math.max(copyError(one), y.min),
    words: [one.name, ["error of the copy", copyError(one)], ["error of W", one.error_W], ["distortion", one.distortion], ["queries", one.queries]], row: [one.name, one.distortion, copyError(one)] });
  const series = groups.map((group, k) => {
    const points = settings.filter((one) => one.group === group).map(at);
    return { name: group, colour: k % 6, shape: SHAPE_ORDER[(k + Math.floor(k / 6)) % 6], size: 5, points };
  });
  const trails = series.filter((one) => one.points.length > 1).map((one) => ({ kind: "line", thin: true, quiet: true, colour: one.colour, points: one.points.filter((p) => p.y < top && p.x > left).sort((a, b) => a.x - b.x).map((p) => ({ ...p, row: p.row })) }));
  const chart = new Chart({ label: "Error of the thief against loss of honest users", height: 440, columns: ["setting", "distortion of answers", "error of the copy"],
    summary: `${settings.length} settings; above ${say(audit.threshold)} the model is kept.`, series: [...trails.map((one) => ({ ...one, points: one.points })), ...series],
    x: { label: "distortion of honest users\u2019 answers (relative)", log: true, min: left / 10 ** 0.3, max: x.max, marks: [[left, "none"], ...marks(x, 6)] },
    y: { label: "error of the thief\u2019s copy", log: true, min: y.min, max: nothing ? top * 10 ** 0.4 : y.max, marks: [...marks(y, 6), ...(settings.some((one) => copyError(one) === null) ? [[top, "no copy"]] : [])] },
    rules: [{ on: "y", at: audit.threshold, label: `threshold ${say(audit.threshold)}`, end: "left" }] });
  chart.numbers = () => settings.map((one) => [one.name, one.distortion, copyError(one)]);
  return part("trade-off", "What protection costs", "Up is safer, left is kinder to honest users: the best defences are in the upper left. \u201cno copy\u201d means that the attack ended without one.", make("div", { class: "card" }, chart.node));
}

function settingsTable(audit) {
  const more = (one) => {
    const lines = [["defence", one.defence], ["answers", one.answers === "sign" ? "yes or no" : "numbers"], ["attack", one.attack], ["reason", one.reason], ["bits", one.bits], ["planned queries", one.plan], ["error of v", one.error_v], ["certified bound", one.bound], ["mitigation", one.mitigation], ["seconds", one.seconds]];
    return make("details", {}, make("summary", {}, "more"), make("dl", {}, lines.filter(([, value]) => value !== null && value !== undefined).map(([name, value]) => [make("dt", {}, name), make("dd", {}, typeof value === "number" ? numeral(value, 4) : value)])));
  };
  const amount = (key, name) => ({ key, name, right: true, value: (one) => one[key], cell: (one) => (one[key] === null ? "\u2014" : numeral(one[key])) });
  const columns = [
    { key: "name", name: "Setting", value: (one) => one.name, cell: (one) => [make("span", { class: "name" }, one.name), make("span", { class: "verdict" }, one.verdict), more(one)] },
    { key: "outcome", name: "Outcome", value: (one) => one.outcome, cell: badge },
    { key: "kept", name: "Model", value: (one) => Number(one.kept), cell: (one) => (one.kept ? "kept" : "given away") },
    amount("queries", "Queries"), amount("error_W", "Error of W"), amount("function_error", "Error of copy"), amount("distortion", "Distortion"),
    ...(audit.settings.some((one) => one.cost !== null) ? [amount("cost", "Cost")] : []),
  ];
  const words = (one) => [one.name, one.group, one.defence, one.verdict, one.mitigation, one.outcome].join(" ");
  const filters = [searchFilter("Filter", words), choiceFilter("Group", [...new Set(audit.settings.map((one) => one.group))], (one) => one.group), checkFilter("only what kept the model", (one) => one.kept)];
  return new SortedTable("Every setting of the audit", columns, audit.settings, filters).node;
}

function queryBars(audit) {
  const most = Math.log10(Math.max(10, ...audit.settings.map((one) => one.queries || 1)));
  return make("div", { class: "card" }, make("ul", { class: "bars" }, audit.settings.map((one) => {
    const fill = make("span", { class: "fill" });
    fill.style.width = `${one.queries > 0 ? (78 * Math.log10(one.queries)) / most : 0}%`;
    const planned = one.plan !== null && one.plan !== undefined ? [" of ", numeral(one.plan), " planned"] : null;
    return make("li", { class: one.kept ? "kept" : null }, make("span", {}, one.name), make("span", { class: "track" }, fill, make("span", { class: "amount" }, one.queries === null ? "none asked" : numeral(one.queries), planned)));
  })));
}

function ranking(audit) {
  if (!audit.ranking.length) return null;
  const of = (name) => audit.settings.find((one) => one.name === name);
  return part("ranking", "Recommendation", audit.recommendation, make("ol", { class: "ranking" }, audit.ranking.map((name) => {
    const one = of(name);
    return make("li", {}, make("strong", {}, name), one ? make("small", {}, " \u2014 distortion ", numeral(one.distortion), one.mitigation ? `, ${one.mitigation}` : null) : null);
  })));
}

const READ_AUDIT = [
  ["The number on top", "In how many settings an attacker ends up with a copy whose answers are closer to the model\u2019s than the threshold."],
  ["Error of copy", "How far the copy\u2019s answers to honest sequences are from the model\u2019s, as a share of the spread of answers: 1 is as bad as always answering the mean."],
  ["Error of W", "The distance of the copy\u2019s W and the true one, over the larger norm. It can be large while the answers are right: then W hardly matters to honest users."],
  ["Distortion", "What the defence does to honest users: the root mean square of the change of their answers, as a share of the spread."],
  ["Kept, given away", "Kept says that this attack did not get below the threshold with this budget. It is no proof that none could."],
  ["Mitigations", "Names such as AML.M0004 are those of MITRE ATLAS, for use in reports of your own."],
];
