// Shows /groups of an operator, and asks again every few seconds.
"use strict";

const ASK_EVERY = 5000; // milliseconds
const FIRST_ROWS = 100; // shown at once; the others follow when they are asked for
let known = { groups: [] };
let most = FIRST_ROWS;

const PHASES = { Running: "good", Sleeping: "soft", Suspended: "soft" };

// The worst first: what is wrong, then what waits longest.
function worstFirst(a, b) {
  return b.wrong.length - a.wrong.length || (b.overdue_seconds || 0) - (a.overdue_seconds || 0)
    || (b.lag_seconds || 0) - (a.lag_seconds || 0)
    || `${a.namespace}/${a.name}`.localeCompare(`${b.namespace}/${b.name}`);
}

function chosen() {
  const fields = element("filter").elements;
  const text = fields.text.value.trim().toLowerCase();
  return known.groups.filter((group) => (!fields.wrong.checked || group.wrong.length)
    && `${group.namespace}/${group.name} ${group.phase}`.toLowerCase().includes(text)).sort(worstFirst);
}

const lagOf = (group) => (group.lag_records === null ? "unknown" : count(group.lag_records));
const publishersOf = (group) => (group.publishers_lagging.length ? `${group.publishers_lagging.join(", ")} lagging`
  : group.publishers ? `${group.publishers} current` : "");
const timeOf = (value) => (value === null ? "unknown" : seconds(value));

function showGroups() {
  const groups = chosen(), shown = groups.slice(0, most);
  const nodes = tableOf(`${count(groups.length)} of ${count(known.groups.length)} groups`,
    ["group", "phase", ">lag", ">oldest", ">overdue", ">executors", ">commits", "publishers", "wrong"],
    shown.map((group) => [
      `${group.namespace}/${group.name}`, group.phase, lagOf(group), timeOf(group.lag_seconds),
      group.overdue_seconds ? seconds(group.overdue_seconds) : "no",
      group.executors_wanted === null ? "" : `${group.executors_ready} of ${group.executors_wanted}`,
      count(group.commits), publishersOf(group), group.wrong.join(", ")]));
  nodes[1].querySelectorAll("tbody tr").forEach((line, index) => {
    line.children[1].className = PHASES[shown[index].phase] || (shown[index].wrong.length ? "bad" : "");
    line.children[8].className = shown[index].wrong.length ? "bad" : "";
  });
  if (groups.length > shown.length) {
    const button = make("button", `Show all ${count(groups.length)}`);
    button.type = "button";
    button.addEventListener("click", () => { most = Infinity; showGroups(); });
    nodes.push(button);
  }
  replaceIfChanged(element("groups"), nodes);
  const first = shown[0];
  replaceIfChanged(element("more"), first ? [
    commandOf(`kubectl -n ${first.namespace} describe consumergroup ${first.name}`),
    commandOf(`kubectl -n ${first.namespace} landfall status ${first.name}`)] : []);
}

function showSums() {
  const wrong = known.groups.filter((group) => group.wrong.length).length;
  const role = known.is_leader ? "" : " · this operator is on standby and manages none";
  const text = `${count(known.groups.length)} groups · ${count(wrong)} with something wrong${role}`;
  if (element("sums").textContent !== text) element("sums").textContent = text;
}

function showSilence(text) {
  element("silent").hidden = !text;
  if (element("silent").textContent !== text) element("silent").textContent = text;
}

async function show() {
  try {
    known = await ask("groups");
    showSums();
    showGroups();
    showSilence("");
  } catch (error) {
    showSilence(`The operator does not answer: ${error.message}. What is below was so before.`);
  }
}

element("filter").addEventListener("input", showGroups);
element("filter").addEventListener("submit", (event) => event.preventDefault());
document.addEventListener("visibilitychange", () => { if (!document.hidden) show(); });
repeat(show, ASK_EVERY);
