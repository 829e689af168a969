// The colours of heat maps, in light and in dark, and matrices drawn with them.
const PALETTES = {
  signed: {
    light: [
      "053061",
      "2166ac",
      "4393c3",
      "92c5de",
      "d1e5f0",
      "f7f7f7",
      "fddbc7",
      "f4a582",
      "d6604d",
      "b2182b",
      "67001f",
    ],
    dark: [
      "b8d8ff",
      "7db7f5",
      "3f8fd6",
      "24608f",
      "1a3a55",
      "14181d",
      "4a2419",
      "8a3d26",
      "cf6a45",
      "ff9b66",
      "ffd2b8",
    ],
  },
  weight: {
    light: ["f7f7f4", "dcecf0", "a9d3df", "69b0ca", "2f86b3", "125a92", "0a2f5c"],
    dark: ["14181d", "17303f", "1c4d68", "27749a", "459fc6", "8ecbe4", "e6f6ff"],
  },
};
const LEVELS = 255;

const printing = window.matchMedia("print"),
  system = window.matchMedia("(prefers-color-scheme: dark)");
function isDark() {
  if (printing.matches) return false;
  const chosen = document.documentElement.dataset.theme;
  return chosen ? chosen === "dark" : system.matches;
}

// LEVELS colours as 32-bit pixels, in the order in which a canvas keeps red, green, blue and alpha.
function palette(name) {
  const stops = PALETTES[name][isDark() ? "dark" : "light"].map((hex) =>
    [0, 2, 4].map((k) => parseInt(hex.slice(k, k + 2), 16)),
  );
  const pixels = new Uint32Array(LEVELS);
  for (let level = 0; level < LEVELS; level++) {
    const at = (level / (LEVELS - 1)) * (stops.length - 1),
      k = Math.min(stops.length - 2, Math.floor(at));
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

// Every pixel gets the colour of the entry under it, or of the one largest in size where there are several.
function colourIn(canvas, { matrix, limit, palette: name = "signed" }, view = { top: 0, left: 0, share: 1 }) {
  const { width, height } = canvas,
    context = canvas.getContext("2d"),
    image = context.createImageData(width, height);
  const pixels = new Uint32Array(image.data.buffer),
    colours = palette(name),
    { rows, columns, block, wide, values } = matrix;
  const span = (from, count, size, p) => {
    const low = Math.floor(count * (from + (p / size) * view.share)),
      high = Math.ceil(count * (from + ((p + 1) / size) * view.share));
    return [
      Math.floor(low / block),
      Math.max(Math.floor(low / block) + 1, Math.min(Math.ceil(count / block), Math.ceil(high / block))),
    ];
  };
  const across = Array.from({ length: width }, (_, p) => span(view.left, columns, width, p));
  const fine = across[0][1] - across[0][0] <= 2; // an entry is at least about a pixel: no need to look for the largest
  const signed = name === "signed",
    scale = limit > 0 ? 1 / limit : 0;
  for (let py = 0; py < height; py++) {
    const [r0, r1] = span(view.top, rows, height, py);
    for (let px = 0; px < width; px++) {
      const [c0, c1] = across[px];
      let value = values[r0 * wide + c0];
      if (!fine)
        for (let r = r0; r < r1; r++)
          for (let c = c0; c < c1; c++) {
            const other = values[r * wide + c];
            if (Math.abs(other) > Math.abs(value)) value = other;
          }
      const share = Math.max(-1, Math.min(1, value * scale));
      pixels[py * width + px] = Number.isNaN(value)
        ? 0
        : colours[Math.round((signed ? (share + 1) / 2 : Math.max(0, share)) * (LEVELS - 1))];
    }
  }
  context.putImageData(image, 0, 0);
}
