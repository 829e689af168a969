// What pages of every kind are made of: the headline, tiles, sections, and what stands at the end.
function tile(name, value, aside) {
  const long = typeof value === "string" && value.length > 10;
  return make(
    "div",
    {},
    make("dt", {}, name),
    make("dd", { class: long ? "value long" : "value" }, value),
    aside ? make("dd", { class: "aside" }, aside) : null,
  );
}

const SHORT = {
  weights: "Weights",
  evidence: "Evidence",
  cost: "Cost",
  reading: "How to read",
  reproduce: "Command",
  numbers: "Numbers",
  threat: "Threat",
  leak: "Leak",
  "trade-off": "Trade-off",
  settings: "Settings",
  queries: "Queries",
  ranking: "What held",
};

function part(id, title, about, ...children) {
  return make(
    "section",
    { id, "aria-labelledby": `${id}-title`, "data-title": SHORT[id] || title },
    make("h2", { id: `${id}-title` }, title),
    about ? make("p", { class: "about" }, about) : null,
    children,
  );
}

const half = (title, about, ...children) =>
  make("div", { class: "card" }, make("h3", {}, title), make("p", { class: "about" }, about), children);

function hero(eyebrow, headline, ...lead) {
  return make(
    "div",
    { class: "hero" },
    make("p", { class: "eyebrow" }, eyebrow),
    make("h1", {}, make("span", { class: "big" }, headline.big), headline.what),
    lead,
  );
}

function reading(entries) {
  return part(
    "reading",
    "How to read this report",
    null,
    make(
      "dl",
      { class: "read" },
      entries.map(([name, words]) => make("div", {}, make("dt", {}, name), make("dd", {}, words))),
    ),
  );
}

function reproduce(command, family) {
  if (!command)
    return part(
      "reproduce",
      "Do it again",
      `This was saved from Python: gh.recover with the same oracle, family "${family}" and seed asks the same queries.`,
    );
  const button = make(
    "button",
    {
      type: "button",
      onclick: async () => {
        try {
          await navigator.clipboard.writeText(command);
          button.textContent = "Copied";
        } catch {
          getSelection().selectAllChildren(code);
        }
      },
    },
    "Copy",
  );
  const code = make("pre", {}, command);
  return part(
    "reproduce",
    "Do it again",
    "The same command asks the same queries; with --run it goes on in the same folder.",
    make("div", { class: "command" }, code, button),
  );
}

function fields(all) {
  const cell = (x) =>
    Array.isArray(x)
      ? x.map((one, k) => [k ? ", " : "", numeral(one, 6)])
      : typeof x === "number"
        ? numeral(x, 6)
        : typeof x === "boolean"
          ? x
            ? "yes"
            : "no"
          : say(x);
  const rows = Object.entries(all).filter(
    ([, value]) => value === null || typeof value !== "object" || Array.isArray(value),
  );
  return part(
    "numbers",
    "All numbers",
    null,
    make(
      "table",
      { class: "fields" },
      make(
        "tbody",
        {},
        rows.map(([name, value]) =>
          make("tr", {}, make("th", { scope: "row" }, name.replaceAll("_", " ")), make("td", {}, cell(value))),
        ),
      ),
    ),
  );
}
