// --- Verdicts: unfolding, search, filters, sorting; the choice is kept in the URL -----------------------------------
const claims = all(".claim"), table = document.querySelector("table.verdicts");
const below = (claim) => document.getElementById(claim.id + "-evidence");
function unfold(claim, open) {
  below(claim).classList.toggle("open", open);
  claim.querySelector(".unfold").setAttribute("aria-expanded", String(open));
}
claims.forEach((claim) => claim.addEventListener("click", (event) => {
  if (String(getSelection())) return;  // the reader is selecting text
  if (event.target.closest("a")) return;
  unfold(claim, !below(claim).classList.contains("open"));
}));
let choice = { q: "", study: "", verdict: "", sort: "" };
let applyChoice = () => {};
if (table) {
  const everything = document.getElementById("unfold"), reset = document.getElementById("reset");
  const fields = { q: document.getElementById("search"), study: document.getElementById("by-study"), verdict: document.getElementById("by-verdict") };
  everything.addEventListener("click", () => {
    const open = everything.getAttribute("aria-expanded") !== "true";
    everything.setAttribute("aria-expanded", String(open));
    everything.textContent = open ? "Hide all evidence" : "Show all evidence";
    claims.forEach((claim) => unfold(claim, open));
  });
  const texts = new Map(claims.map((claim) => [claim, (claim.textContent + " " + below(claim).textContent).toLowerCase()]));
  const ranks = ["REFUTED", "SUPPORTED", "EQUIVALENT", "INCONCLUSIVE", "INVALID"];
  const keys = {
    claim: (claim) => claim.dataset.claim.toLowerCase(),
    verdict: (claim) => ranks.indexOf(claim.dataset.verdict),
    effect: (claim) => claim.dataset.effect === "" ? Infinity : -Number(claim.dataset.effect),
    n: (claim) => -Number(claim.dataset.n),
  };
  applyChoice = () => {
    const words = choice.q.toLowerCase().split(/\s+/).filter(Boolean);
    let shown = 0;
    claims.forEach((claim) => {
      const passes = (!choice.study || claim.dataset.study === choice.study)
        && (!choice.verdict || claim.dataset.verdict === choice.verdict)
        && words.every((word) => texts.get(claim).includes(word));
      claim.hidden = below(claim).hidden = !passes;
      claim.style.display = below(claim).style.display = passes ? "" : "none";
      shown += passes;
    });
    const [column, descending] = choice.sort.split("-"), key = keys[column];
    const sorted = key ? [...claims].sort((a, b) => (key(a) > key(b)) - (key(a) < key(b))) : [...claims];
    if (descending) sorted.reverse();
    sorted.forEach((claim) => table.tBodies[0].append(claim, below(claim)));
    all("th[data-sort]", table).forEach((head) => head.setAttribute("aria-sort",
      head.dataset.sort !== column ? "none" : descending ? "descending" : "ascending"));
    document.getElementById("shown").textContent = shown + " of " + claims.length + " shown";
    document.getElementById("none-shown").hidden = shown > 0;
    reset.hidden = !Object.values(choice).some(Boolean);
    for (const name in fields) if (fields[name].value !== choice[name]) fields[name].value = choice[name];
    all("button.count").forEach((button) => button.setAttribute("aria-pressed", String(button.dataset.verdict === choice.verdict)));
  };
  const choose = (change) => {
    choice = { ...choice, ...change };
    applyChoice();
    const parameters = new URLSearchParams(Object.entries(choice).filter(([, value]) => value));
    const text = String(parameters);
    try { history.replaceState(null, "", text ? "#?" + text : location.pathname + location.search); } catch (error) { location.hash = text ? "?" + text : ""; }
  };
  fields.q.addEventListener("input", () => choose({ q: fields.q.value }));
  fields.study.addEventListener("change", () => choose({ study: fields.study.value }));
  fields.verdict.addEventListener("change", () => choose({ verdict: fields.verdict.value }));
  reset.addEventListener("click", () => choose({ q: "", study: "", verdict: "", sort: "" }));
  all("button.count").forEach((button) => button.addEventListener("click", () =>
    choose({ verdict: choice.verdict === button.dataset.verdict ? "" : button.dataset.verdict })));
  all("th[data-sort]", table).forEach((head) => {
    const button = document.createElement("button"), column = head.dataset.sort;
    button.type = "button";
    button.className = "sort";
    button.append(...head.childNodes);
    head.append(button);
    button.addEventListener("click", () =>
      choose({ sort: choice.sort === column ? column + "-turned" : choice.sort === column + "-turned" ? "" : column }));
  });
}
function arrive() {  // goes to what the URL names: a filter, a claim, or anything else with an id
  const fragment = decodeURIComponent(location.hash.slice(1));
  if (fragment.startsWith("?")) {
    const parameters = new URLSearchParams(fragment.slice(1));
    for (const name in choice) choice[name] = parameters.get(name) || "";
    applyChoice();
    return;
  }
  const target = document.getElementById(fragment);
  if (target && target.matches(".claim")) {
    if (target.hidden) { choice = { q: "", study: "", verdict: "", sort: "" }; applyChoice(); }
    unfold(target, true);
  }
  reveal(fragment);
}
applyChoice();
addEventListener("hashchange", arrive);
if (location.hash) arrive();
