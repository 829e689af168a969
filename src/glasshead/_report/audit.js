// The page of an audit: what an endpoint gives away under each setting, and what would stop it at which price.
function auditPage(data) {
  const audit = data.audit,
    settings = audit.settings;
  const best = settings.find((one) => one.name === audit.ranking[0]);
  const lost = settings.filter((one) => !one.kept && one.queries !== null);
  const cheapest = lost.length ? lost.reduce((a, b) => (b.queries < a.queries ? b : a)) : null;
  return [
    hero(
      ["Audit of ", make("code", {}, audit.target)],
      data.headline,
      make("p", { class: "lead" }, audit.recommendation),
    ),
    make(
      "dl",
      { class: "tiles" },
      tile("Target", audit.family, [
        numeral(audit.dim),
        " dimensions",
        audit.parameters === null ? null : [", ", numeral(audit.parameters), " free parameters"],
      ]),
      tile(
        "Cheapest theft",
        cheapest ? numeral(cheapest.queries) : "none",
        cheapest
          ? ["queries, setting: ", cheapest.name, cheapest.cost === null ? null : ["; price ", numeral(cheapest.cost)]]
          : "no setting gives the model away",
      ),
      tile(
        "Best defence",
        best ? best.name : "none found",
        best
          ? best.distortion
            ? ["distorts answers by ", numeral(best.distortion), " of their spread"]
            : "leaves honest answers as they are"
          : "none keeps a copy's error above the threshold",
      ),
      tile("Threshold", numeral(audit.threshold), "of the spread of answers: a copy that is further off is none"),
      audit.budget === null ? null : tile("Budget", numeral(audit.budget), "queries for each setting"),
      tile("Technique", audit.technique, "MITRE ATLAS: extract the model"),
    ),
    part(
      "threat",
      "Threat model",
      null,
      make(
        "p",
        { class: "note" },
        `${audit.threat.slice(0, 1).toUpperCase()}${audit.threat.slice(1)}. Every line below is a real run of glasshead against the target behind that defence; what glasshead did not recover, another method might.`,
      ),
    ),
    audit.leak ? leakPart(audit.leak) : null,
    tradeOff(audit),
    part(
      "settings",
      "Every setting",
      "Sort by any column, filter by words. Errors of W are relative to the true one, those of a copy to the spread of answers.",
      settingsTable(audit),
    ),
    part(
      "queries",
      "Queries for each setting",
      "On a logarithmic scale; what is green kept the model.",
      queryBars(audit),
    ),
    ranking(audit),
    reading(READ_AUDIT),
    reproduce(audit.command, audit.family),
    fields({
      version: audit.version,
      target: audit.target,
      family: audit.family,
      dim: audit.dim,
      parameters: audit.parameters,
      threshold: audit.threshold,
      budget: audit.budget,
      price_per_query: audit.price_per_query,
      technique: audit.technique,
    }),
  ];
}

function leakPart(leak) {
  const all = leak.rows.flatMap((row) => row.singular);
  const longest = Math.max(1, ...leak.rows.map((row) => row.singular.length));
  const chart = new Chart({
    label: "Singular values of the answers",
    summary: leak.rows.map((row) => row.words).join(" "),
    height: 320,
    series: leak.rows.map((row, k) => ({
      name: row.answers,
      colour: k % 6,
      shape: SHAPE_ORDER[k % 6],
      size: 3.4,
      points: row.singular.map((s, n) => ({
        x: n + 1,
        y: s > 0 ? s : null,
        words: [`${row.answers}, singular value ${n + 1}`, ["", s]],
        row: [row.answers, n + 1, s],
      })),
    })),
    rules: leak.rows
      .filter((row, k) => row.width !== null && leak.rows.findIndex((other) => other.width === row.width) === k)
      .map((row) => ({ on: "x", at: row.width + 0.5, label: `width ${say(row.width)}` })),
    x: { label: "number of the singular value", min: 0, max: longest + 1 },
    y: { label: "singular value", ...decades(all) },
  });
  return part(
    "leak",
    "What any answers leak",
    [
      "Before any chosen vector: ",
      numeral(leak.queries),
      " answers of ",
      numeral(leak.outputs),
      " numbers each show the hidden width by their rank, and the output projection up to a linear map.",
    ],
    make(
      "div",
      { class: "card" },
      chart.node,
      make(
        "ul",
        { class: "leaks" },
        leak.rows.map((row) => make("li", {}, make("strong", {}, `${row.answers}: `), row.words)),
      ),
    ),
  );
}

function ranking(audit) {
  if (!audit.ranking.length) return null;
  const of = (name) => audit.settings.find((one) => one.name === name);
  return part(
    "ranking",
    "What held",
    "Settings that kept the model, the kindest to honest users first.",
    make(
      "ol",
      { class: "ranking" },
      audit.ranking.map((name) => {
        const one = of(name);
        return make(
          "li",
          {},
          make("strong", {}, name),
          one
            ? make(
                "small",
                {},
                " \u2014 distortion ",
                numeral(one.distortion),
                one.mitigation ? `, ${one.mitigation}` : null,
              )
            : null,
        );
      }),
    ),
  );
}

const READ_AUDIT = [
  [
    "The number on top",
    "In how many settings an attacker ends up with a copy whose answers are closer to the model\u2019s than the threshold.",
  ],
  [
    "Error of copy",
    "How far the copy\u2019s answers to honest sequences are from the model\u2019s, as a share of the spread of answers: 1 is as bad as always answering the mean.",
  ],
  [
    "Error of W",
    "The distance of the copy\u2019s W and the true one, over the larger norm. It can be large while the answers are right: then W hardly matters to honest users.",
  ],
  [
    "Distortion",
    "What the defence does to honest users: the root mean square of the change of their answers, as a share of the spread.",
  ],
  [
    "Kept, given away",
    "Kept says that this attack did not get below the threshold with this budget. It is no proof that none could.",
  ],
  ["Mitigations", "Names such as AML.M0004 are those of MITRE ATLAS, for use in reports of your own."],
];
