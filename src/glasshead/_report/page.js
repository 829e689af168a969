// From the data in the page to the page: contents, theme, footer.
const data = JSON.parse(document.getElementById("data").textContent);

const THEMES = ["auto", "light", "dark"];
function kept(value) {
  // what was chosen last time, where the browser lets a page remember
  try {
    if (value) localStorage.setItem("glasshead-theme", value);
    return localStorage.getItem("glasshead-theme");
  } catch {
    return null;
  }
}
function setTheme(name) {
  const root = document.documentElement;
  if (name === "auto") delete root.dataset.theme;
  else root.dataset.theme = name;
  themeButton.textContent = `Theme: ${name}`;
  repaint();
}
const themeButton = document.getElementById("theme");
let theme = THEMES.includes(kept()) ? kept() : "auto";
themeButton.addEventListener("click", () => {
  theme = THEMES[(THEMES.indexOf(theme) + 1) % THEMES.length];
  kept(theme);
  setTheme(theme);
});

const parts = (data.kind === "audit" ? auditPage(data) : recoveryPage(data)).filter(Boolean);
document.getElementById("main").append(...parts);
document
  .getElementById("contents")
  .append(
    ...parts.filter((one) => one.dataset.title).map((one) => make("a", { href: `#${one.id}` }, one.dataset.title)),
  );
document
  .getElementById("made")
  .append(`Made by glasshead ${data.version}. This page is one file: it loads nothing and sends nothing.`);
setTheme(theme);
document.documentElement.dataset.ready = "yes";
