// Axes, linear or logarithmic, and where their ticks are.
function axis({ log = false, min, max }, from, to) {
  const f = log ? Math.log10 : (x) => x;
  const low = f(min),
    high = f(max) === low ? low + 1 : f(max);
  const at = (x) => from + ((f(x) - low) / (high - low)) * (to - from);
  const back = (p) => {
    const t = low + ((p - from) / (to - from)) * (high - low);
    return log ? 10 ** t : t;
  };
  return { at, back, low, high, log };
}

function ticks({ low, high, log }, most) {
  if (log) {
    const first = Math.ceil(low - 1e-9),
      last = Math.floor(high + 1e-9);
    if (last - first >= 1) {
      const step = Math.max(1, Math.ceil((last - first) / most));
      const tens = [];
      for (let k = first; k <= last; k += step) tens.push(10 ** k);
      return tens;
    }
    return evenly(10 ** low, 10 ** high, Math.min(4, most));
  }
  return evenly(low, high, most);
}

function evenly(low, high, most) {
  const rough = (high - low) / Math.max(1, most),
    power = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 5, 10].map((k) => k * power).find((k) => k >= rough);
  const marks = [];
  for (let k = Math.ceil(low / step - 1e-9); k * step <= high + 1e-9 * step; k++)
    marks.push(Number((k * step).toPrecision(12)));
  return marks;
}

function tickLabel(x) {
  if (x === 0) return "0";
  const size = Math.abs(x);
  return size >= 1e-3 && size < 1e5 ? say(x, 4) : say(x, 2).replace(`1${THIN}\u00d7${THIN}10`, "10");
}

// The least and the largest of positive numbers, with a little room; for logarithmic axes.
function decades(values, room = 0.35) {
  const positive = values.filter((x) => typeof x === "number" && x > 0);
  if (!positive.length) return { log: true, min: 0.1, max: 10 };
  const logs = positive.map(Math.log10),
    low = Math.min(...logs),
    high = Math.max(...logs);
  const extra = Math.max(room, 0.04 * (high - low));
  return { log: true, min: 10 ** (low - extra), max: 10 ** (high + extra) };
}
