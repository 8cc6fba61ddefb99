// What the pages of a driver and of an operator share. Texts may come from payloads, or from tenants: they are set as
// text, never as markup.
"use strict";

const GIVE_UP_AFTER = 8000; // milliseconds
const SVG = "http://www.w3.org/2000/svg";

const element = (id) => document.getElementById(id);

function make(name, text, className) {
  const made = document.createElement(name);
  if (text !== undefined) made.textContent = text;
  if (className) made.className = className;
  return made;
}

function draw(name, attributes, text) {
  const drawn = document.createElementNS(SVG, name);
  for (const [key, value] of Object.entries(attributes)) drawn.setAttribute(key, value);
  if (text !== undefined) drawn.textContent = text;
  return drawn;
}

// Numbers as people read them ----------------------------------------------------------------------------------------

function count(number) {
  if (number === null || number === undefined) return "unknown";
  if (Math.abs(number) < 100 && !Number.isInteger(number)) return number.toFixed(1);
  return Math.round(number).toLocaleString("en");
}

function size(bytes) {
  let value = bytes, unit = "B";
  for (const next of ["KiB", "MiB", "GiB", "TiB"]) {
    if (value < 1024) break;
    value /= 1024;
    unit = next;
  }
  return `${value < 10 && unit !== "B" ? value.toFixed(1) : Math.round(value)} ${unit}`;
}

function seconds(number) {
  if (number < 10) return `${Number(number.toFixed(1))} s`;
  if (number < 120) return `${Math.round(number)} s`;
  if (number < 7200) return `${Math.round(number / 60)} min`;
  if (number < 172800) return `${Math.round(number / 3600)} h`;
  return `${Math.round(number / 86400)} days`;
}

// Times are compared with the driver's clock, not with the browser's.
const ago = (time, now) => (time ? `${seconds(Math.max(0, (now - Date.parse(time)) / 1000))} ago` : "never");

function commandOf(command) {
  const line = make("div", undefined, "command");
  const button = make("button", "Copy");
  button.type = "button";
  button.setAttribute("aria-label", `Copy: ${command}`);
  button.addEventListener("click", async () => {
    try {
      await navigator.clipboard.writeText(command);
      button.textContent = "Copied";
    } catch {
      button.textContent = "Not allowed: select it";
    }
  });
  line.append(make("code", command), button);
  return line;
}

// A list that did not change keeps its nodes: focus and selection stay where they are.
function replaceIfChanged(parent, nodes) {
  const text = nodes.map((node) => node.outerHTML).join("");
  if (parent.shownText === text) return;
  parent.shownText = text;
  parent.replaceChildren(...nodes);
}

function tableOf(title, columns, rows) {
  const box = make("div", undefined, "scroll");
  box.tabIndex = 0;
  box.setAttribute("role", "region");
  box.setAttribute("aria-label", title);
  const table = make("table"), head = make("tr"), body = make("tbody");
  for (const column of columns) {
    const cell = make("th", column.replace(/^>/, ""), column.startsWith(">") ? "number" : "");
    cell.scope = "col";
    head.append(cell);
  }
  for (const row of rows) {
    const line = make("tr");
    row.forEach((value, index) => line.append(make("td", value, columns[index].startsWith(">") ? "number" : "")));
    body.append(line);
  }
  const top = make("thead");
  top.append(head);
  table.append(top, body);
  box.append(table);
  return [make("h3", title), box];
}

async function ask(path) {
  const answer = await fetch(path, { cache: "no-store", signal: AbortSignal.timeout(GIVE_UP_AFTER) });
  return answer.json();
}

function showSilence(text) {
  element("silent").hidden = !text;
  if (element("silent").textContent !== text) element("silent").textContent = text;
}

async function repeat(work, pause) {
  if (!document.hidden) await work();
  setTimeout(() => repeat(work, pause), pause);
}
