const root = document.documentElement;
const all = (selector, within) => Array.from((within || document).querySelectorAll(selector));
const tip = document.getElementById("tip"), readout = document.getElementById("readout");

// --- Theme ------------------------------------------------------------------------------------------------------
const theme = document.getElementById("theme");
const dark = () => root.dataset.theme ? root.dataset.theme === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
const name = () => { theme.textContent = dark() ? "Light theme" : "Dark theme"; };
theme.addEventListener("click", () => {
  root.dataset.theme = dark() ? "light" : "dark";
  try { localStorage.setItem("kymograph-theme", root.dataset.theme); } catch (error) { /* not remembered, which is harmless */ }
  name();
});
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", name);
name();

// --- Tooltips: for the pointer, the keyboard and touch ------------------------------------------------------------
function show(text, x, y) {
  tip.textContent = text;
  tip.hidden = false;
  const { width, height } = tip.getBoundingClientRect();
  tip.style.left = Math.max(8, Math.min(x + 14, innerWidth - width - 8)) + "px";
  tip.style.top = (y + 16 + height > innerHeight ? Math.max(8, y - height - 12) : y + 16) + "px";
}
const hide = () => { tip.hidden = true; };
document.addEventListener("pointerover", (event) => {
  const target = event.target.closest && event.target.closest("[data-tip]");
  if (target) show(target.dataset.tip, event.clientX, event.clientY);
});
document.addEventListener("pointerout", (event) => {
  if (event.target.closest && event.target.closest("[data-tip]")) hide();
});
document.addEventListener("focusin", (event) => {
  const target = event.target.closest && event.target.closest("[data-tip]");
  if (!target || !target.matches(":focus-visible")) return;
  const frame = target.getBoundingClientRect();
  show(target.dataset.tip, frame.left, frame.bottom - 8);
});
document.addEventListener("focusout", hide);
document.addEventListener("keydown", (event) => { if (event.key === "Escape") hide(); });
document.addEventListener("scroll", hide, { passive: true });


// --- Opening and closing: studies, and the target of a link --------------------------------------------------------
const studies = all("details.study"), openAll = document.getElementById("studies");
if (openAll) openAll.addEventListener("click", () => {
  const open = openAll.getAttribute("aria-expanded") !== "true";
  openAll.setAttribute("aria-expanded", String(open));
  openAll.textContent = open ? "Close all studies" : "Open all studies";
  studies.forEach((study) => { study.open = open; });
});
function reveal(id) {
  const target = id && document.getElementById(id);
  if (!target) return null;
  for (let part = target; part; part = part.parentElement) if (part.tagName === "DETAILS") part.open = true;
  const study = target.matches("section") && target.querySelector("details.study");
  if (study) study.open = true;
  all(".linked").forEach((part) => part.classList.remove("linked"));
  target.classList.add("linked");
  target.scrollIntoView();
  return target;
}
document.addEventListener("click", (event) => {  // a link to the current target scrolls there again
  const link = event.target.closest && event.target.closest('a[href^="#"]');
  if (link && link.getAttribute("href") === location.hash) arrive();
});
