// Axes, linear or logarithmic, and the colours of heat maps in light and in dark.
function axis({ log = false, min, max }, from, to) {
  const f = log ? Math.log10 : (x) => x;
  const low = f(min), high = f(max) === low ? low + 1 : f(max);
  const at = (x) => from + ((f(x) - low) / (high - low)) * (to - from);
  const back = (p) => { const t = low + ((p - from) / (to - from)) * (high - low); return log ? 10 ** t : t; };
  return { at, back, low, high, log };
}

function ticks({ low, high, log }, most) {
  if (log) {
    const first = Math.ceil(low - 1e-9), last = Math.floor(high + 1e-9);
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
  const rough = (high - low) / Math.max(1, most), power = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 5, 10].map((k) => k * power).find((k) => k >= rough);
  const marks = [];
  for (let k = Math.ceil(low / step - 1e-9); k * step <= high + 1e-9 * step; k++) marks.push(Number((k * step).toPrecision(12)));
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
  const logs = positive.map(Math.log10), low = Math.min(...logs), high = Math.max(...logs);
  const extra = Math.max(room, 0.04 * (high - low));
  return { log: true, min: 10 ** (low - extra), max: 10 ** (high + extra) };
}

const PALETTES = {
  signed: {
    light: ["053061", "2166ac", "4393c3", "92c5de", "d1e5f0", "f7f7f7", "fddbc7", "f4a582", "d6604d", "b2182b", "67001f"],
    dark: ["b8d8ff", "7db7f5", "3f8fd6", "24608f", "1a3a55", "14181d", "4a2419", "8a3d26", "cf6a45", "ff9b66", "ffd2b8"],
  },
  weight: {
    light: ["f7f7f4", "dcecf0", "a9d3df", "69b0ca", "2f86b3", "125a92", "0a2f5c"],
    dark: ["14181d", "17303f", "1c4d68", "27749a", "459fc6", "8ecbe4", "e6f6ff"],
  },
};
const LEVELS = 255;

const printing = window.matchMedia("print"), system = window.matchMedia("(prefers-color-scheme: dark)");
function isDark() {
  if (printing.matches) return false;
  const chosen = document.documentElement.dataset.theme;
  return chosen ? chosen === "dark" : system.matches;
}

// LEVELS colours as 32-bit pixels, in the order in which a canvas keeps red, green, blue and alpha.
function palette(name) {
  const stops = PALETTES[name][isDark() ? "dark" : "light"].map((hex) => [0, 2, 4].map((k) => parseInt(hex.slice(k, k + 2), 16)));
  const pixels = new Uint32Array(LEVELS);
  for (let level = 0; level < LEVELS; level++) {
    const at = (level / (LEVELS - 1)) * (stops.length - 1), k = Math.min(stops.length - 2, Math.floor(at));
    const [r, g, b] = [0, 1, 2].map((c) => Math.round(stops[k][c] + (at - k) * (stops[k + 1][c] - stops[k][c])));
    pixels[level] = (255 << 24) | (b << 16) | (g << 8) | r;
  }
  return pixels;
}

// What has to be drawn anew when colours change.
const painters = new Set();
const repaint = () => painters.forEach((paint) => paint());
system.addEventListener("change", repaint);
printing.addEventListener("change", repaint);
