"use strict";
(() => {
  const PAGE = 100;
  const ROUND = new Intl.NumberFormat("en-GB");
  const ORDER = new Intl.Collator("en", { numeric: true });
  const UNITS = ["KiB", "MiB", "GiB", "TiB"];
  const RANK = ["failed", "copied", "pruned", "kept", "skipped"];

  const raw = document.getElementById("report").textContent;
  const report = JSON.parse(raw);
  const secondsOf = (time) => (time ? Date.parse(time) / 1000 : 0);
  const began = Date.parse(report.started) / 1000;
  const at = (id) => document.getElementById(id);

  const items = report.items.map((item, number) => ({
    item,
    number,
    target: item.target,
    outcome: RANK.indexOf(item.outcome),
    moved: item.moves.copiedBytes,
    saved: item.moves.mountedBytes + item.moves.presentBytes,
    started: secondsOf(item.started),
    seconds: item.seconds,
    text: [
      item.outcome, item.source, item.target, item.digest, item.sourceDigest, item.replaced, item.reason, ...item.also,
      item.error?.type, item.error?.message, item.error?.hint,
    ].filter(Boolean).join("\n").toLowerCase(),
  }));
  const state = { outcome: "all", words: [], key: "number", down: false, shown: PAGE };
  const open = new Set();
  let found = items;

  const size = (count) => {
    if (count < 1024) return `${count} B`;
    let unit = -1;
    do { count /= 1024; unit += 1; } while (count >= 1023.95 && unit < UNITS.length - 1);
    return `${count.toFixed(1)} ${UNITS[unit]}`;
  };
  const duration = (seconds) => {
    if (seconds < 9.95) return `${Math.max(seconds, 0).toFixed(1)} s`;
    const whole = Math.round(seconds);
    for (const [large, unit, small, part] of [[86400, "d", 3600, "h"], [3600, "h", 60, "min"], [60, "min", 1, "s"]]) {
      const rest = Math.floor((whole % large) / small);
      if (whole >= large) return `${Math.floor(whole / large)} ${unit}${rest ? ` ${rest} ${part}` : ""}`;
    }
    return `${whole} s`;
  };

  // Text goes in as text: nothing of the report is ever read as HTML.
  const make = (name, properties, ...children) => {
    const made = Object.assign(document.createElement(name), properties);
    made.append(...children.filter((child) => child !== null));
    return made;
  };
  const number = (label, text) => {
    const cell = make("td", { className: "number" }, text);
    cell.dataset.label = label;
    return cell;
  };
  const wordsOf = (text) => text.toLowerCase().split(/\s+/).filter(Boolean);
  const isTimed = (item) => item.started && Number.isFinite(began);

  const row = ({ item, number: index, moved, saved }) => {
    const from = [item.source && `from ${item.source}`, !item.error && item.reason].filter(Boolean).join(" · ");
    const button = make("button", { type: "button" }, "Details");
    button.setAttribute("aria-expanded", open.has(index));
    button.setAttribute("aria-label", `Details of ${item.target}`);
    const made = make("tr", { className: item.outcome },
      make("td", { className: "outcome" }, make("span", { className: `dot ${item.outcome}` }), item.outcome),
      make("td", { className: "tag" },
        make("bdi", {}, item.target),
        from ? make("small", {}, make("bdi", {}, from)) : null),
      number("moved", moved ? size(moved) : ""),
      number("saved", saved ? size(saved) : ""),
      number("began after", isTimed(item) ? duration(secondsOf(item.started) - began) : ""),
      number("took", isTimed(item) ? duration(item.seconds) : ""),
      make("td", { className: "do" }, button));
    made.dataset.item = index;
    return made;
  };
  const detail = ({ item, number: index }) => {
    const { moves, error } = item;
    const blobs = (count, bytes) => (count ? `${ROUND.format(count)} (${size(bytes)})` : "");
    const lines = [
      ["Source", item.source], ["Target", item.target], ["Digest", item.digest],
      ["Digest at the source", item.sourceDigest], ["Replaced", item.replaced],
      ["Reason", item.reason], ["Error", error?.message], ["Next step", error?.hint], ["Kind of error", error?.type],
      ["Blobs copied", blobs(moves.copied, moves.copiedBytes)],
      ["Blobs mounted", blobs(moves.mounted, moves.mountedBytes)],
      ["Blobs there already", blobs(moves.present, moves.presentBytes)],
      ["Manifests pushed", moves.manifests ? ROUND.format(moves.manifests) : ""],
      ["Companions", item.also.join(", ")],
      ["Began", isTimed(item) ? new Date(item.started).toISOString() : ""],
      ["Entry of the job", `sync[${item.entry}]`],
    ].filter(([, value]) => value);
    const list = make("dl", {}, ...lines.flatMap(([label, value]) => [
      make("dt", {}, label), make("dd", {}, make("bdi", {}, value))]));
    const made = make("tr", { className: "detail" }, make("td", { colSpan: 7 }, list));
    made.dataset.of = index;
    return made;
  };

  const rows = (some) => some.flatMap((each) => (open.has(each.number) ? [row(each), detail(each)] : [row(each)]));
  const status = () => {
    const shown = Math.min(state.shown, found.length);
    const all = `${ROUND.format(items.length)} ${items.length === 1 ? "tag" : "tags"}`;
    const matching = found.length === items.length ? all : `${ROUND.format(found.length)} of ${all}`;
    at("found").textContent =
      shown === found.length ? `${matching}.` : `${matching}; the first ${ROUND.format(shown)} are shown.`;
    const left = found.length - shown;
    at("more").hidden = at("every").hidden = left === 0;
    at("more").textContent = `Show ${ROUND.format(Math.min(PAGE, left))} more`;
    at("every").textContent = `Show all ${ROUND.format(found.length)}`;
  };
  const draw = () => {
    found = items.filter((each) =>
      (state.outcome === "all" || each.item.outcome === state.outcome) &&
      state.words.every((word) => each.text.includes(word)));
    const compare = state.key === "target"
      ? (a, b) => ORDER.compare(a.target, b.target)
      : state.key === "number"
        ? (a, b) => (b.item.outcome === "failed") - (a.item.outcome === "failed")
        : (a, b) => a[state.key] - b[state.key];
    found.sort((a, b) => (state.down ? compare(b, a) : compare(a, b)) || a.number - b.number);
    at("rows").replaceChildren(...rows(found.slice(0, state.shown)));
    status();
  };
  const extend = (count) => {
    const from = state.shown;
    state.shown = from + count;
    at("rows").append(...rows(found.slice(from, state.shown)));
    status();
  };
  const choose = (outcome) => {
    state.outcome = outcome;
    state.shown = PAGE;
    for (const chip of document.querySelectorAll("[data-outcome]")) {
      chip.setAttribute("aria-pressed", chip.dataset.outcome === outcome);
    }
    draw();
  };
  const sort = (head) => {
    const key = head.firstChild.dataset.sort;
    const largestFirst = ["moved", "saved", "seconds"].includes(key);
    const before = head.getAttribute("aria-sort");
    state.key = key;
    state.down = before === "none" ? largestFirst : before === "ascending";
    for (const each of document.querySelectorAll("th[aria-sort]")) each.setAttribute("aria-sort", "none");
    head.setAttribute("aria-sort", state.down ? "descending" : "ascending");
    draw();
  };
  const seek = (index) => {
    at("search").value = items[index].target;
    state.words = wordsOf(items[index].target);
    choose("all");
    const place = found.findIndex((each) => each.number === index);
    if (place >= state.shown) extend(place + 1 - state.shown);
    const line = document.querySelector(`tr[data-item="${index}"]`);
    for (const each of document.querySelectorAll("tr.sought")) each.classList.remove("sought");
    line.classList.add("sought");
    line.scrollIntoView({ block: "center" });
    line.querySelector("button").focus({ preventScroll: true });
  };

  at("rows").addEventListener("click", (event) => {
    const button = event.target.closest("button");
    if (!button) return;
    const line = button.closest("tr");
    const index = Number(line.dataset.item);
    if (open.delete(index)) line.nextElementSibling.remove();
    else {
      open.add(index);
      line.after(detail(items[index]));
    }
    button.setAttribute("aria-expanded", open.has(index));
  });
  at("search").addEventListener("input", (event) => {
    state.words = wordsOf(event.target.value);
    state.shown = PAGE;
    draw();
  });
  at("more").addEventListener("click", () => extend(PAGE));
  at("every").addEventListener("click", () => extend(found.length - state.shown));
  at("download").addEventListener("click", () => {
    const address = URL.createObjectURL(new Blob([raw], { type: "application/json" }));
    make("a", { href: address, download: "mirror-report.json" }).click();
    setTimeout(() => URL.revokeObjectURL(address), 1000);
  });
  document.addEventListener("click", (event) => {
    const target = event.target.closest("[data-outcome], [data-sort], rect[data-item]");
    if (!target) return;
    if (target.dataset.outcome) choose(target.dataset.outcome);
    else if (target.dataset.sort) sort(target.parentElement);
    else seek(Number(target.dataset.item));
  });
  addEventListener("beforeprint", () => {
    for (const each of document.querySelectorAll("details")) each.open = true;
  });
  at("scriptless").hidden = true;
  at("browse").hidden = false;
  draw();
})();
