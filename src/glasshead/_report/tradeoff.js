// What protection costs: how wrong a copy stays against what honest users lose, one point for each setting.
function tradeOff(audit) {
  const settings = audit.settings.filter((one) => one.distortion !== null);
  const y = decades([...settings.map(copyError), audit.threshold], 0.5);
  const x = decades(
    settings.map((one) => one.distortion),
    0.5,
  );
  // What has no place on a logarithmic axis stands beside it: no distortion on the left, no copy on top.
  const left = x.min / 10 ** 0.6,
    top = y.max * 10 ** (0.09 * Math.log10(y.max / y.min) + 0.2);
  const uncopied = settings.some((one) => copyError(one) === null);
  const marks = ({ min, max }) =>
    ticks({ low: Math.log10(min), high: Math.log10(max), log: true }, 6).map((t) => [t, tickLabel(t)]);
  const point = (one) => {
    const error = copyError(one);
    return {
      x: one.distortion > 0 ? one.distortion : left,
      y: error === null ? top : Math.max(error, y.min),
      words: [
        one.name,
        ["error of the copy", error],
        ["error of W", one.error_W],
        ["distortion", one.distortion],
        ["queries", one.queries],
      ],
      row: [one.name, one.distortion, error],
    };
  };
  const groups = [...new Set(settings.map((one) => one.group))].map((name, k) => ({
    name,
    colour: k % 6,
    shape: SHAPE_ORDER[(k + Math.floor(k / 6)) % 6],
    size: 5,
    points: settings.filter((one) => one.group === name).map(point),
  }));
  // One defence at several strengths is a curve.
  const kindred = ({ points }) => points.length > 1 && new Set(points.map((p) => p.row[0].split(" ")[0])).size === 1;
  const curves = groups.filter(kindred).map(({ colour, points }) => ({
    kind: "line",
    thin: true,
    quiet: true,
    colour,
    points: points.filter((p) => p.y < top && p.x > left).sort((a, b) => a.x - b.x),
  }));
  const chart = new Chart({
    label: "Error of the thief against loss of honest users",
    summary: `${settings.length} settings; above ${say(audit.threshold)} the model is kept.`,
    height: 440,
    columns: ["setting", "distortion of answers", "error of the copy"],
    series: [...curves, ...groups],
    x: {
      label: "distortion of honest users\u2019 answers (relative)",
      log: true,
      min: left / 2,
      max: x.max,
      marks: [[left, "none"], ...marks(x)],
    },
    y: {
      label: "error of the thief\u2019s copy",
      log: true,
      min: y.min,
      max: uncopied ? top * 2.5 : y.max,
      marks: [...marks(y), ...(uncopied ? [[top, "no copy"]] : [])],
    },
    rules: [{ on: "y", at: audit.threshold, label: `threshold ${say(audit.threshold)}`, end: "left" }],
  });
  chart.numbers = () => settings.map((one) => point(one).row);
  return part(
    "trade-off",
    "What protection costs",
    "Up is safer, left is kinder to honest users: the best defences are in the upper left. \u201cno copy\u201d means that the attack ended without one.",
    make("div", { class: "card" }, chart.node),
  );
}
