// Shows /status and /history of one driver, and asks again every few seconds; /record, when the form or the address
// (#record/TOPIC/PARTITION/OFFSET) asks for one. Texts may come from payloads: they are set as text, never as markup.
"use strict";

const ASK_EVERY = 3000; // milliseconds
const ASK_HISTORY_EVERY = 15000; // milliseconds: how often the driver adds a point
const OLD_AFTER = 30; // seconds since the driver's last pass

// What to do ---------------------------------------------------------------------------------------------------------

const GOOD_PHASES = ["Running", "Standby", "Yielded"];
const BAD_PHASES = ["Stalled", "Fenced"];

function problemsOf(status) {
  const problems = [];
  const add = (level, title, text, command) => problems.push({ level, title, text, command });
  if (BAD_PHASES.includes(status.phase)) add("bad", `The driver is ${status.phase}`, status.message);
  else if (status.message) add("warn", "The driver reports", status.message);
  const failure = status.commits.last_failure;
  if (status.commits.consecutive_failures && failure)
    add("bad", `${count(status.commits.consecutive_failures)} failures since the last commit: ${failure.reason}`,
      failure.message);
  for (const partition of status.partitions)
    if (partition.blocked)
      add("bad", `${partition.topic}/${partition.partition} is stopped at offset ${partition.checkpoint}: ` +
        partition.blocked, partition.message, partition.next_step);
  const shown = status.partitions.filter((partition) => partition.blocked).length;
  if (status.totals && status.totals.blocked > shown)
    add("bad", `${count(status.totals.blocked - shown)} more topic partitions are stopped`, "");
  for (const publisher of status.publishers) {
    if (publisher.blocked) add("bad", `Publisher ${publisher.name} is stopped: ${publisher.blocked}`, publisher.message);
    else if (publisher.consecutive_failures)
      add("warn", `Publisher ${publisher.name}: ${count(publisher.consecutive_failures)} passes failed`,
        publisher.message);
  }
  for (const feed of status.feeds)
    if (feed.error) add(feed.undecided_parts ? "bad" : "warn", `Files of ${feed.topic}`, feed.error, feed.next_step);
  for (const topic of status.completeness)
    if (topic.held_by) add("warn", `${topic.topic} is not complete: ${topic.held_by}`, topic.why);
  const problem = status.workers && status.workers.problem;
  if (problem) add("warn", `Executors are missing: ${problem.reason || ""}`, problem.message || "");
  if (status.compaction && status.compaction.problem) add("warn", "Compaction", status.compaction.problem);
  if (status.replacing && status.replacing.problem) add("warn", "Replaced objects", status.replacing.problem, status.replacing.next_step);
  const late = (status.totals || status).overdue_seconds;
  if (late > 0 && status.lag_known)
    add("warn", `Records wait ${seconds(late)} longer than the upload policy allows`, "");
  return problems;
}

function showProblems(status) {
  const problems = problemsOf(status);
  const items = problems.map(({ level, title, text, command }) => {
    const item = make("li", undefined, level);
    item.append(make("p", title, "title"));
    if (text) item.append(make("p", text));
    if (command) item.append(commandOf(command));
    return item;
  });
  if (!items.length) {
    const item = make("li", undefined, "good");
    item.append(make("p", "Nothing is wrong.", "title"));
    items.push(item);
  }
  replaceIfChanged(element("problems"), items);
}

// Now ----------------------------------------------------------------------------------------------------------------

function showHead(status) {
  const name = status.namespace ? `${status.namespace}/${status.group}` : status.group;
  element("group").textContent = name;
  document.title = `${name} · ${status.phase} · Landfall`;
  const phase = element("phase");
  if (phase.textContent !== status.phase) phase.textContent = status.phase;
  const isGood = GOOD_PHASES.includes(status.phase);
  phase.className = `badge ${BAD_PHASES.includes(status.phase) ? "bad" : isGood ? "good" : "warn"}`;
  element("about").textContent =
    `generation ${status.generation} · epoch ${status.epoch} · version ${status.version} · ` +
    `started ${ago(status.started, Date.parse(status.time))}`;
}

function showNumbers(status) {
  const now = Date.parse(status.time);
  const totals = status.totals || status;
  const numbers = [];
  const add = (name, value, more) => numbers.push([name, value, more]);
  if (status.lag_known) {
    const without = totals.blocked ? `, without ${count(totals.blocked)} stopped topic partition${totals.blocked === 1 ? "" : "s"}` : "";
    add("Lag", `${count(totals.lag_records)} records`, `oldest waits ${seconds(totals.lag_seconds)}${without}`);
    add("Overdue", totals.overdue_seconds > 0 ? seconds(totals.overdue_seconds) : "no",
      "beyond the upload policy");
  } else add("Lag", "unknown", "this process does not read the log");
  add("Commits", count(status.commits.total), `last ${ago(status.commits.last_time, now)}`);
  add("Landed", `${count(status.rates.landed_records)} records`,
    `${size(status.rates.landed_bytes)} since the driver started`);
  add("Dead letters", count(status.rates.dead_lettered), "since the driver started");
  if (status.totals) add("Topic partitions", count(status.totals.count), `${count(status.totals.blocked)} stopped`);
  if (status.workers && status.workers.wanted)
    add("Executors", `${count(status.workers.registered)} of ${count(status.workers.wanted)}`,
      `${count(status.workers.slots)} tasks at a time`);
  else if (status.workers) add("Tasks at a time", count(status.workers.slots), "in the driver's own process");
  add("Batches in flight", count(status.rounds), status.repairing ? `${count(status.repairing)} objects made again` : "");
  replaceIfChanged(element("numbers"), numbers.map(([name, value, more]) => {
    const group = make("div");
    const shown = make("dd", value);
    if (more) shown.append(make("small", more));
    group.append(make("dt", name), shown);
    return group;
  }));
}

// Details ------------------------------------------------------------------------------------------------------------

function showTables(status) {
  const now = Date.parse(status.time);
  const nodes = [];
  const add = (title, columns, rows) => { if (rows.length) nodes.push(...tableOf(title, columns, rows)); };
  const all = status.totals && status.totals.count > status.partitions.length;
  add(all ? `Topic partitions: the worst ${status.partitions.length} of ${count(status.totals.count)}` : "Topic partitions",
    ["topic partition", ">checkpoint", ">end", ">lag", ">oldest", "state"],
    status.partitions.map((partition) => [
      `${partition.topic}/${partition.partition}`, partition.checkpoint, partition.end_offset,
      count(partition.lag_records), seconds(partition.lag_seconds), stateOf(partition)]));
  add("Tables and other publishers", ["publisher", "type", ">slots behind", ">behind", ">objects", "last pass", "message"],
    status.publishers.map((publisher) => [
      publisher.name, publisher.type, count(publisher.lag_slots), seconds(publisher.lag_seconds),
      count(publisher.published_objects), ago(publisher.last_time, now),
      publisher.message || publisher.details || ""]));
  add("Files", ["feed", ">pending", ">bytes", ">landed parts", ">parked", ">waiting", "looked"],
    status.feeds.map((feed) => [
      feed.topic, count(feed.pending_files), size(feed.pending_bytes), count(feed.landed_parts),
      count(feed.parked_parts), count(feed.waiting_files), ago(feed.looked, now)]));
  add("Completeness", ["topic", "complete until", "held by", "why"],
    status.completeness.map((topic) => [topic.topic, topic.until || "", topic.held_by, topic.why]));
  if (status.compaction)
    add("Compaction", [">folders waiting", ">objects merged", ">into", ">bytes", ">duplicates left out"],
      [[count(status.compaction.waiting_folders), count(status.compaction.merged_objects),
        count(status.compaction.new_objects), size(status.compaction.merged_bytes), count(status.compaction.duplicates)]]);
  if (status.schedule)
    add("Ranges of the schedule", ["until", ">records", ">bad", ">objects", ">bytes", "ended"],
      status.schedule.runs.map((run) => [
        run.until, count(run.records), count(run.bad_records), count(run.objects), size(run.bytes), ago(run.ended, now)]));
  if (!nodes.length) nodes.push(make("p", "There are no topic partitions yet."));
  replaceIfChanged(element("tables"), nodes);
}

function stateOf(partition) {
  if (partition.blocked) return partition.blocked;
  if (partition.read_from) return `read from ${partition.read_from}`;
  if (partition.held_back_records) return `${count(partition.held_back_records)} held back by a transaction`;
  return partition.in_round ? "landing" : "";
}

// Charts -------------------------------------------------------------------------------------------------------------

const WIDTH = 360, HEIGHT = 120, LEFT = 4, BOTTOM = 16, TOP = 14;

const CHARTS = [
  { title: "Age of the oldest record", unit: seconds,
    lines: [["lag", (h) => h.lag_seconds], ["overdue", (h) => h.overdue_seconds]] },
  { title: "Lag in records", unit: count, lines: [["records", (h) => h.lag_records]] },
  { title: "Landed a second", unit: count, lines: [["records", (h) => rates(h, h.landed_records)],
    ["dead letters", (h) => rates(h, h.dead_lettered)]] },
  { title: "Input a second", unit: size, lines: [["bytes", (h) => rates(h, h.input_bytes)]] },
];

// Differences of counters a second; a counter that fell, or was unknown, gives no value.
function rates(history, counter) {
  return counter.map((value, index) => {
    if (!index || value === null || counter[index - 1] === null || value < counter[index - 1]) return null;
    return (value - counter[index - 1]) / ((history.time[index] - history.time[index - 1]) / 1000);
  });
}

function chartOf(chart, history) {
  const lines = chart.lines.map(([name, of]) => [name, of(history)]);
  const known = lines.flatMap(([, values]) => values.filter((value) => value !== null));
  const most = Math.max(...known, 0);
  const first = history.time[0], last = history.time[history.time.length - 1];
  const x = (time) => LEFT + ((WIDTH - 2 * LEFT) * (time - first)) / Math.max(1, last - first);
  const y = (value) => HEIGHT - BOTTOM - ((HEIGHT - BOTTOM - TOP) * value) / (most || 1);
  const latest = lines.map(([name, values]) => {
    const value = values[values.length - 1];
    return `${name} ${value === null || value === undefined ? "unknown" : chart.unit(value)}`;
  });
  const picture = draw("svg", { viewBox: `0 0 ${WIDTH} ${HEIGHT}`, role: "img",
    "aria-label": `${chart.title}: now ${latest.join(", ")}; at most ${chart.unit(most)}` });
  picture.append(draw("line", { class: "axis", x1: LEFT, x2: WIDTH - LEFT, y1: y(0), y2: y(0) }));
  picture.append(draw("text", { x: LEFT, y: 10 }, chart.unit(most)));
  picture.append(draw("text", { x: LEFT, y: HEIGHT - 3 }, clock(first)));
  picture.append(draw("text", { x: WIDTH - LEFT, y: HEIGHT - 3, "text-anchor": "end" }, clock(last)));
  lines.forEach(([, values], index) => {
    let path = "", isOpen = false;
    values.forEach((value, at) => {
      if (value !== null) path += `${isOpen ? "L" : "M"}${x(history.time[at]).toFixed(1)} ${y(value).toFixed(1)}`;
      isOpen = value !== null;
    });
    if (path) picture.append(draw("path", { class: `line ${index ? "two" : "one"}`, d: path }));
  });
  const figure = make("figure");
  figure.append(make("figcaption", chart.title), picture, make("p", latest.join(" · "), "key"));
  return figure;
}

const clock = (time) => new Date(time).toLocaleTimeString([], { hour: "2-digit", minute: "2-digit" });

function showHistory(history) {
  if (!history.time.length) {
    element("charts").replaceChildren(make("p", "The first point comes within a minute."));
    return;
  }
  element("since").textContent = new Date(history.time[0]).toLocaleString();
  element("charts").replaceChildren(...CHARTS.map((chart) => chartOf(chart, history)));
}

// A record -----------------------------------------------------------------------------------------------------------

const FATES = { landed: "good", "dead-lettered": "warn", "possibly-landed": "good", lost: "bad", "given-up": "bad" };

function storyOf(found) {
  const nodes = [make("p", found.message || found.error, `title ${FATES[found.fate] || "soft"}`)];
  const facts = [];
  if (found.committed) facts.push(`Committed ${new Date(found.committed).toLocaleString()}, in slot ${found.slot}.`);
  if (found.visible === false) facts.push("Its objects are not all visible yet.");
  for (const publisher of found.publishers || [])
    facts.push(publisher.published ? `${publisher.name} (${publisher.type}) has it.`
      : `${publisher.name} (${publisher.type}) does not have it yet: it is at slot ${publisher.slot}.`);
  nodes.push(...facts.map((fact) => make("p", fact)));
  if (found.objects && found.objects.length)
    nodes.push(...tableOf("Objects", ["object", ">row", ">rows"], found.objects.map((object) => [
      object.url, object.row === null ? "unknown" : count(object.row), count(object.rows)])));
  if (found.command) nodes.push(commandOf(found.command));
  return nodes;
}

async function showRecord() {
  const story = element("story");
  story.replaceChildren(make("p", "Looking it up …", "soft"));
  try {
    story.replaceChildren(...storyOf(await ask(`record?${new URLSearchParams(new FormData(element("record")))}`)));
  } catch (error) {
    story.replaceChildren(make("p", `The driver does not answer: ${error.message}.`, "title bad"));
  }
}

// The address names the record, so that it can be passed on.
function showRecordOfAddress() {
  const [what, ...place] = location.hash.replace("#", "").split("/");
  if (what !== "record" || place.length !== 3) return;
  const fields = element("record").elements;
  try {
    [fields.topic.value, fields.partition.value, fields.offset.value] = place.map(decodeURIComponent);
  } catch {
    return; // no address that this page made
  }
  if (element("record").reportValidity()) showRecord();
}

element("record").addEventListener("submit", (event) => {
  event.preventDefault();
  const fields = element("record").elements;
  const place = [fields.topic, fields.partition, fields.offset].map((field) => encodeURIComponent(field.value.trim()));
  const address = `#record/${place.join("/")}`;
  if (location.hash === address) showRecord();
  else location.hash = address;
});
window.addEventListener("hashchange", showRecordOfAddress);
showRecordOfAddress();

// Asking -------------------------------------------------------------------------------------------------------------

async function show() {
  try {
    const status = await ask("status?summary=true");
    if (!status.commits) { // before the first pass
      element("phase").textContent = status.phase;
      showSilence("");
      return;
    }
    showHead(status);
    showProblems(status);
    showNumbers(status);
    showTables(status);
    const health = await ask("healthcheck");
    const since = health.seconds_since_pass;
    const waits = health.waiting_for ? `: it waits for ${health.waiting_for}` : "";
    showSilence(since > OLD_AFTER ? `This is what was so ${seconds(since)} ago${waits}.` : "");
  } catch (error) {
    showSilence(`The driver does not answer: ${error.message}. What is below was so before.`);
  }
}

async function showCharts() {
  try {
    showHistory(await ask("history"));
  } catch {
    // showSilence has said so
  }
}

document.addEventListener("visibilitychange", () => { if (!document.hidden) { show(); showCharts(); } });
repeat(show, ASK_EVERY);
repeat(showCharts, ASK_HISTORY_EVERY);
