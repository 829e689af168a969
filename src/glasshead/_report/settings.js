// Every setting of an audit: in a table, and as bars of how many queries it took.
const OUTCOMES = {
  recovered: "recovered",
  partly: "copied",
  direction: "all but a length",
  refused: "not recovered",
  budget: "out of queries",
};

function badge(setting) {
  const words = make(
    "span",
    { class: `badge ${setting.kept ? "kept" : "lost"}` },
    setting.kept ? "kept" : "given away",
  );
  return [words, make("span", { class: "verdict" }, OUTCOMES[setting.outcome] || setting.outcome)];
}

// How wrong the attacker's copy is: what it answers or, where it cannot answer alone, its W.
const copyError = (setting) => (setting.function_error !== null ? setting.function_error : setting.error_W);

function settingsTable(audit) {
  const more = (one) => {
    const lines = [
      ["defence", one.defence],
      ["answers", one.answers === "sign" ? "yes or no" : "numbers"],
      ["attack", one.attack],
      ["reason", one.reason],
      ["bits", one.bits],
      ["planned queries", one.plan],
      ["error of v", one.error_v],
      ["certified bound", one.bound],
      ["mitigation", one.mitigation],
      ["seconds", one.seconds],
    ];
    return make(
      "details",
      {},
      make("summary", {}, "more"),
      make(
        "dl",
        {},
        lines
          .filter(([, value]) => value !== null && value !== undefined)
          .map(([name, value]) => [
            make("dt", {}, name),
            make("dd", {}, typeof value === "number" ? numeral(value, 4) : value),
          ]),
      ),
    );
  };
  const amount = (key, name) => ({
    key,
    name,
    right: true,
    value: (one) => one[key],
    cell: (one) => (one[key] === null ? "\u2014" : numeral(one[key])),
  });
  const columns = [
    {
      key: "name",
      name: "Setting",
      value: (one) => one.name,
      cell: (one) => [
        make("span", { class: "name" }, one.name),
        make("span", { class: "verdict" }, one.verdict),
        more(one),
      ],
    },
    { key: "kept", name: "Model", value: (one) => `${Number(one.kept)} ${one.outcome}`, cell: badge },
    amount("queries", "Queries"),
    amount("error_W", "Error of W"),
    amount("function_error", "Error of copy"),
    amount("distortion", "Distortion"),
    ...(audit.settings.some((one) => one.cost !== null) ? [amount("cost", "Cost")] : []),
  ];
  const words = (one) => [one.name, one.group, one.defence, one.verdict, one.mitigation, one.outcome].join(" ");
  const filters = [
    searchFilter("Filter", words),
    choiceFilter("Group", [...new Set(audit.settings.map((one) => one.group))], (one) => one.group),
    checkFilter("only what kept the model", (one) => one.kept),
  ];
  return new SortedTable("Every setting of the audit", columns, audit.settings, filters).node;
}

function queryBars(audit) {
  const most = Math.log10(Math.max(10, ...audit.settings.map((one) => one.queries || 1)));
  return make(
    "div",
    { class: "card" },
    make(
      "ul",
      { class: "bars" },
      audit.settings.map((one) => {
        const fill = make("span", { class: "fill" });
        fill.style.setProperty("--share", one.queries > 0 ? Math.log10(one.queries) / most : 0);
        const planned = one.plan !== null && one.plan !== undefined ? [" of ", numeral(one.plan), " planned"] : null;
        return make(
          "li",
          { class: one.kept ? "kept" : null },
          make("span", {}, one.name),
          make(
            "span",
            { class: "track" },
            fill,
            make("span", { class: "amount" }, one.queries === null ? "none asked" : numeral(one.queries), planned),
          ),
        );
      }),
    ),
  );
}
