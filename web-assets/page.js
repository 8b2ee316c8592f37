/*
 * The page for people. It asks the API that everybody may use, shows the answers as text
 * and nothing else, and changes only what is different from what it shows.
 *
 * The token is kept in this tab and sent in a header: never in a URL, never in a cookie.
 */
"use strict";
(() => {

/* ---- elements: described, then painted over what is there, so that focus stays ---- */

const SVG = "http://www.w3.org/2000/svg";
const SVG_TAGS = new Set(["svg", "path", "line", "polyline", "polygon", "circle", "g"]);

function h(tag, attributes, ...kids) {
	return { tag, attributes: attributes || {}, kids: kids.flat(Infinity).filter(
		(kid) => kid !== null && kid !== undefined && kid !== false) };
}

function make(node) {
	if (typeof node !== "object")
		return document.createTextNode(String(node));
	const element = SVG_TAGS.has(node.tag) ? document.createElementNS(SVG, node.tag)
		: document.createElement(node.tag);
	element.shown = { attributes: {}, tag: node.tag };
	fill(element, node);
	return element;
}

function fill(element, node) {
	const before = element.shown.attributes;
	for (const key of Object.keys(before))
		if (!(key in node.attributes)) {
			if (key.startsWith("on"))
				element[key] = null;
			else
				element.removeAttribute(key);
		}
	for (const [key, value] of Object.entries(node.attributes)) {
		if (key.startsWith("on"))
			element[key] = value;
		else if (before[key] === value)
			continue;
		else if (value === false || value === null || value === undefined)
			element.removeAttribute(key);
		else
			element.setAttribute(key, value === true ? "" : value);
	}
	element.shown.attributes = node.attributes;
	paint(element, node.kids);
}

function fits(element, node) {
	if (typeof node !== "object")
		return element.nodeType === Node.TEXT_NODE;
	return element.shown !== undefined && element.shown.tag === node.tag &&
		element.shown.attributes.key === node.attributes.key;
}

function paint(parent, kids) {
	let at = parent.firstChild;
	for (const kid of kids) {
		if (at && !fits(at, kid) && at.nextSibling && fits(at.nextSibling, kid)) {
			const gone = at;
			at = at.nextSibling;
			gone.remove();
		}
		if (!at || !fits(at, kid)) {
			parent.insertBefore(make(kid), at);
			continue;
		}
		if (typeof kid === "object")
			fill(at, kid);
		else if (at.data !== String(kid))
			at.data = String(kid);
		at = at.nextSibling;
	}
	while (at) {
		const gone = at;
		at = at.nextSibling;
		gone.remove();
	}
}

const byId = (id) => document.getElementById(id);

/* ---- what is known ---- */

const S = {
	who: null, status: null, version: null, clock: 0, shownAt: 0,
	awayAt: 0, awayWhy: "", needsToken: false, tokenFails: "",
	lag: null, lagAt: 0, running: null, leases: [], held: [], waiting: [], queue: null,
	mirrors: null, list: null, item: null, busy: {}, unread: {},
};
const LIST_ROWS = 100, QUEUE_ROWS = 50, LAG_MINUTES = 360, FEW = 12, OLD_MS = 30000;
const MIRROR_ROWS = 200, MIRROR_PAGES = 5, MIRRORS_A_PAGE = 1000;
const HEARD_SECONDS = 25; /* VERDICT_HEARD_MS, after which a site is silent */
const TOKEN = "refrelay.token";

const token = () => sessionStorage.getItem(TOKEN);
const mayOperate = () => !!S.who && S.who.rights.includes("operate");
/* As one segment of a path; "." and ".." would be another path. */
const enc = (text) => /^\.\.?$/.test(text) ? "%00" : encodeURIComponent(text);

class Refused extends Error {
	constructor(status, problem) {
		super(problem.message || "the node answered " + status);
		this.status = status;
		this.remedy = problem.remedy || "";
		this.code = problem.code || "";
	}
}

async function ask(path, options = {}, patience = 15000) {
	const cut = new AbortController();
	const timer = setTimeout(() => cut.abort(), patience);
	const headers = {};
	if (token())
		headers.Authorization = "Bearer " + token();
	try {
		const answer = await fetch(path, { method: options.method || "GET", headers,
			body: options.body, credentials: "omit", cache: "no-store",
			redirect: "error", signal: cut.signal });
		const text = await answer.text();
		let object = {};
		try {
			object = JSON.parse(text);
		} catch {
			object = { message: text.slice(0, 200) };
		}
		if (!answer.ok)
			throw new Refused(answer.status, object);
		return object;
	} finally {
		clearTimeout(timer);
	}
}

/* Of what may not be there, as with another role: null then. Null, too, if the node refuses it:
 * unread then says why, at key. */
async function askIf(unread, key, wanted, path) {
	if (!wanted)
		return null;
	try {
		return await ask(path);
	} catch (error) {
		if (!(error instanceof Refused) || error.status === 401)
			throw error;
		if (error.status !== 404 && error.status !== 409)
			unread[key] = explain(error);
		return null;
	}
}

const unreadText = (key, what) => S.unread[key] ? h("p", { class: "error", key: "unread " + key },
	what + " could not be read: ", said(S.unread[key])) : null;

const REPOSITORY = "repository";
const rowsPath = (kind) => kind === REPOSITORY ? "/api/v1/repositories"
	: "/api/v1/blobs/" + enc(kind);
const rowPath = (kind, name) => rowsPath(kind) + "/" + enc(name);
const rowsOf = (page) => page ? page.repositories || page.blobs || [] : [];
const listLink = (kind, state) => "#/list/" + enc(kind) + (state ? "?state=" + encodeURIComponent(state) : "");
const itemLink = (kind, name) => "#/item/" + enc(kind) + "/" + enc(name);

/* ---- words ---- */

const now = () => Date.now() + S.clock;

function duration(seconds) {
	if (seconds === null || seconds === undefined)
		return "–";
	if (seconds < 0.95)
		return seconds >= 0.05 ? seconds.toFixed(1) + " s" : "0 s";
	if (seconds < 120)
		return Math.round(seconds) + " s";
	if (seconds < 7200)
		return Math.round(seconds / 60) + " min";
	if (seconds < 172800)
		return Math.round(seconds / 3600) + " h";
	return Math.round(seconds / 86400) + " d";
}

function bytes(count) {
	const units = ["B", "kB", "MB", "GB", "TB", "PB"];
	let unit = 0;
	while (count >= 1000 && unit < units.length - 1) {
		count /= 1000;
		unit++;
	}
	return (unit && count < 100 ? count.toFixed(1) : Math.round(count)) + " " + units[unit];
}

const number = (count) => (count || 0).toLocaleString("en-US");
const several = (count, one, more) => number(count) + " " + (count === 1 ? one : more || one + "s");

function ago(time) {
	if (!time)
		return "never";
	const seconds = (now() - Date.parse(time)) / 1000;
	const text = seconds < 0 ? "in " + duration(-seconds)
		: seconds < 2 ? "just now" : duration(seconds) + " ago";
	return h("time", { datetime: time, title: time }, text);
}

/* Of unknown making: kept apart from the text around it, clipped, and whole in the title. */
const name = (text, extra) => h("bdi", { class: "name " + (extra || ""), title: text }, text);
const said = (text) => h("bdi", { class: "said" }, text || "");
const link = (kind, text) => h("a", { href: itemLink(kind, text), class: "clip" }, name(text));

/* As a shell takes it. */
const quote = (text) => /^[\w.\/@%+=:,-]+$/.test(text) ? text
	: "'" + text.replace(/'/g, "'\\''") + "'";

/* The last word of a command, although it may look like an option. */
const operand = (text) => (text.startsWith("-") ? "-- " : "") + quote(text);

function command(...words) {
	const text = words.join(" ");
	return h("span", { class: "command", key: text }, h("code", {}, h("bdi", {}, text)),
		navigator.clipboard ? h("button", { class: "small", type: "button",
			"aria-label": "Copy the command",
			onclick: () => navigator.clipboard.writeText(text).then(
				() => toast("Copied."), () => toast("The browser does not allow it.")) },
			"Copy") : null);
}

const TONES = {
	"up to date": "good", readable: "good", verifying: "busy", copying: "busy",
	running: "busy", behind: "wait", waiting: "wait", pending: "wait", held: "bad",
	failing: "bad", gone: "bad", "missing on primary": "bad", orphan: "bad",
	"given up": "bad", "not heard": "bad", "copies not all": "bad", "catching up": "wait",
	unknown: "wait",
};
const word = (text) => h("span", { class: "word " + (TONES[text] || "") }, text);

/* The word of a row; a primary's rows have none. */
function wordOf(row) {
	if (row.word)
		return row.word;
	if (row.verification === "failed")
		return "failing";
	return row.verification === "succeeded" ? "readable" : "verifying";
}

function toast(text) {
	byId("toast").textContent = text;
	clearTimeout(toast.timer);
	toast.timer = setTimeout(() => byId("toast").textContent = "", 8000);
}

/* ---- what people do ---- */

async function order(key, path, body, told) {
	S.busy[key] = true;
	draw();
	try {
		toast(told(await ask(path,
			{ method: "POST", body: body ? JSON.stringify(body) : undefined })));
	} catch (error) {
		toast(explain(error));
		if (error.status === 401)
			S.needsToken = true;
	}
	delete S.busy[key];
	await refresh().catch(lost);
	draw();
}

const act = (kind, rowName, verb, body) => order(verb + kind + rowName,
	rowPath(kind, rowName) + "/" + verb, body,
	() => "Done: " + verb + " was asked for. The page shows what comes of it.");

/* Of a destination, or of what was given up. */
const actPush = (verb, key) => order(verb + key, "/api/v1/push/" + verb, { keys: [key] },
	(answer) => answer.done ? "Done: " + verb + " of a push."
		: "Nothing was done: it is being pushed, or no remote pushes it any more.");

const explain = (error) => error instanceof Refused
	? error.message + (error.remedy ? " – " + error.remedy : "")
	: "The node does not answer.";

function button(text, run, options = {}) {
	return h("button", { type: "button", class: options.class || false, onclick: run,
		disabled: !!options.disabled, autofocus: !!options.autofocus, title: options.title || false, key: text }, text);
}

function actButton(kind, row, verb, text, title) {
	return button(text, () => act(kind, row.name, verb),
		{ disabled: S.busy[verb + kind + row.name], title });
}

function closeDialog() {
	byId("dialog").close();
	paint(byId("dialog"), []);
}

function confirmRelease(kind, row) {
	paint(byId("dialog"), [
		h("h2", { id: "dialog-title" }, "Release this copy?"),
		h("p", {}, name(row.name, "whole")),
		h("p", {}, "It is held: ", said(row.held_reason), "."),
		h("p", {}, "Releasing it makes the copy here equal to the primary’s, once. Refs that " +
			"the primary does not have are deleted, and commits that only this copy has " +
			"are lost. Save what matters first."),
		h("div", { class: "buttons" },
			button("Release", () => {
				closeDialog();
				act(kind, row.name, "release", { held_reason: row.held_reason });
			}, { class: "danger" }),
			button("Cancel", closeDialog, { autofocus: true })),
	]);
	byId("dialog").showModal();
}

function confirmDiscard(one) {
	paint(byId("dialog"), [
		h("h2", { id: "dialog-title" }, "Discard this push?"),
		h("p", {}, name(one.project, "whole"), " to ", name(one.remote)),
		h("p", {}, one.state === "orphan" ? "No remote pushes it any more."
			: "It will not be pushed, until something changes there again."),
		h("div", { class: "buttons" },
			button("Discard", () => {
				closeDialog();
				actPush("discard", one.key);
			}, { class: "danger" }),
			button("Cancel", closeDialog, { autofocus: true })),
	]);
	byId("dialog").showModal();
}

/* What tries a push again or forgets it: buttons, or the commands. */
function decisionsOf(one, mayDiscard) {
	if (!mayOperate())
		return [one.state === "orphan" ? null : command("refrelay push retry", one.key.slice(0, 10)),
			mayDiscard ? command("refrelay push discard", one.key.slice(0, 10)) : null];
	return h("div", { class: "buttons" },
		one.state === "orphan" ? null : button("Retry now", () => actPush("retry", one.key),
			{ class: "small", disabled: S.busy["retry" + one.key] }),
		mayDiscard ? button("Discard…", () => confirmDiscard(one),
			{ class: "small", disabled: S.busy["discard" + one.key] }) : null);
}

/* What lets a held row go: a button, or the command where only that may. */
function releaseOf(kind, row) {
	const noun = kind === REPOSITORY ? "repository" : "blob";
	const type = kind === REPOSITORY ? [] : ["--type", quote(kind)];
	if (row.gone)
		return [h("p", {}, "The primary deleted it. If that is right:"),
			command("refrelay", noun, "remove", ...type, operand(row.name))];
	if (mayOperate())
		return button("Release…", () => confirmRelease(kind, row), { class: "danger" });
	return command("refrelay", noun, "sync --force", ...type, operand(row.name));
}

function signIn(event) {
	event.preventDefault();
	const value = byId("token").value.trim();
	if (!value)
		return;
	sessionStorage.setItem(TOKEN, value);
	S.who = null;
	S.tokenFails = "";
	start();
}

function signOut() {
	sessionStorage.removeItem(TOKEN);
	Object.assign(S, { who: null, status: null, version: null, list: null, item: null,
		lag: null, lagAt: 0 });
	start();
}

function signInView() {
	return [h("section", { class: "panel narrow", "aria-labelledby": "sign-in" },
		h("h1", { id: "sign-in" }, "Sign in"),
		h("p", {}, "This site shows its state to those who have a token: that of the operator " +
			"(", h("code", {}, "http.operatorTokenFile"), "), or one of a section ",
			h("code", {}, "[token]"), "."),
		h("form", { onsubmit: signIn },
			h("label", { for: "token" }, "Token"),
			h("input", { id: "token", type: "password", autocomplete: "off",
				spellcheck: "false", required: true,
				"aria-describedby": "token-fails" }),
			h("p", { id: "token-fails", class: "error", role: "alert" }, S.tokenFails),
			h("button", { type: "submit", class: "primary" }, "Sign in")),
		h("p", { class: "muted" }, "The token stays in this tab and is forgotten when you close it."),
		token() || S.who ? button("Cancel", start) : null)];
}

/* ---- the overview ---- */

const mirrorsFail = (mirrors) => mirrors.failing + mirrors.held + mirrors.lists.failing +
	mirrors.checkouts.failing > 0;

/* The tone of it all: good, wait, bad. */
function toneOf(status) {
	if (status.in_sync)
		return "good";
	const counts = [status.repositories, ...Object.values(status.blobs || {})];
	const isBad = counts.some((one) => one.failed > 0 || one.held > 0 ||
			(one.failures || []).length > 0) ||
		status.write_failure || status.failure || status.root_failure ||
		(status.scan && status.scan.failure) ||
		(status.secondaries || []).some((one) => one.in_sync === null ||
			one.failing > 0 || one.held > 0 || one.reason === "secondary_partial") ||
		(status.remotes || []).some((one) => one.failing > 0 || one.given_up > 0) ||
		(status.mirrors && mirrorsFail(status.mirrors));
	return isBad ? "bad" : "wait";
}

function section(title, id, ...kids) {
	return h("section", { class: "panel", "aria-labelledby": id, key: id },
		h("h2", { id }, title), ...kids);
}

const SHORT = new Set(["Lag", "For", "Took", "Verified", "Changed", "Due", "Since", "Time left",
	"Generation", "What", "Result", "Proof", "Next try", "Last success"]);

function table(caption, heads, rows) {
	return h("div", { class: "table" },
		h("table", {},
			h("caption", { class: "unseen" }, caption),
			h("thead", {}, h("tr", {}, heads.map((head) => h("th",
				{ scope: "col", class: SHORT.has(head) && "short" }, head)))),
			h("tbody", {}, rows.map((cells) => h("tr", { key: cells.key },
				cells.map((cell, i) => h("td", { "data-head": heads[i] },
					h("div", { class: "cell" }, cell))))))));
}

function keyed(key, cells) {
	cells.key = key;
	return cells;
}

function curveOf(kind, peer) {
	const curves = S.lag ? S.lag.curves : [];
	return (curves.find((one) => one.kind === kind && one.peer === peer) || {}).lag || null;
}

/* Minutes from the left to the right; what is not known is a gap. */
function curve(kind, peer) {
	const lags = curveOf(kind, peer);
	if (!lags)
		return unreadText("lag", "The lag") || h("p", { class: "curve-none muted", key: "none" },
			"Lag curve: a point each minute");
	const known = lags.filter((lag) => lag !== null);
	const most = Math.max(0, ...known), top = Math.max(most, 5);
	const x = (i) => (i / (lags.length - 1) * 240).toFixed(1);
	const y = (lag) => (34 - lag / top * 30).toFixed(1);
	const parts = [];
	let line = [];
	const end = () => {
		if (line.length === 1)
			line.push([(Number(line[0][0]) + 1).toFixed(1), line[0][1]]);
		if (line.length)
			parts.push(line);
		line = [];
	};
	lags.forEach((lag, i) => lag === null ? end() : line.push([x(i), y(lag)]));
	end();
	const text = "Lag of the last " + duration(lags.length * 60) + ": at most " + duration(most) +
		", now " + duration(known.at(-1));
	return h("figure", { class: "curve", key: "curve" },
		h("svg", { viewBox: "0 0 240 36", preserveAspectRatio: "none", role: "img",
			"aria-label": text },
			h("line", { x1: 0, x2: 240, y1: 34.5, y2: 34.5, class: "base" }),
			parts.map((points) => [
				h("polygon", { points: [[points[0][0], 34], ...points,
					[points.at(-1)[0], 34]].map((point) => point.join(",")).join(" ") }),
				h("polyline", { points: points.map((point) => point.join(",")).join(" ") })])),
		h("figcaption", {}, h("span", {}, duration(lags.length * 60) + " ago"),
			h("span", {}, "at most " + duration(most)), h("span", {}, "now")));
}

function facts(...pairs) {
	return h("dl", { class: "facts" }, pairs.filter(Boolean).map(([term, value, tone]) =>
		h("div", { key: term, class: tone || false }, h("dt", {}, term), h("dd", {}, value))));
}

const arrow = (flows, tone) => h("svg", { class: "arrow " + (flows ? "flows " : "") + tone,
	viewBox: "0 0 48 16", "aria-hidden": "true", key: "arrow" },
	h("line", { x1: 2, y1: 8, x2: 38, y2: 8 }), h("path", { d: "M38 3l8 5-8 5z" }));

function place(title, what, state, kids, key) {
	return h("div", { class: "place", key },
		h("div", { class: "place-head" }, h("span", { class: "muted" }, what), state),
		h("h3", {}, name(title)), ...kids);
}

/* "https://git.example.com/x/" is read as git.example.com/x. */
const urlText = (url) => (url || "").replace(/^https?:\/\//, "").replace(/\/$/, "");

function fromPrimary(status) {
	const silent = !!status.failure || status.heard_age === null || status.heard_age > HEARD_SECONDS;
	return h("li", { class: "flow from", key: "primary" },
		place(urlText(status.primary_url) || "primary", "primary",
			word(silent ? "not heard" : "up to date"), [
				facts(["heard", status.heard_age === null ? ago(status.heard_at)
					: duration(status.heard_age) + " ago", silent && "bad"],
				["last event", number(status.primary_last_event)],
				["clock difference", duration(Math.abs(status.clock_difference))])], "place"),
		arrow(status.repositories.started > 0, silent ? "bad" : "good"));
}

function fromUpstreams(status) {
	const mirrors = status.mirrors, { lists, checkouts } = mirrors;
	const state = mirrorsFail(mirrors) ? "failing" : mirrors.stale + lists.stale > 0 ||
		mirrors.synced !== mirrors.all ? "behind" : "up to date";
	return h("li", { class: "flow from", key: "upstreams" },
		place(several(mirrors.all, "upstream"), "mirrored here",
			word(state), [
				facts(["up to date", number(mirrors.synced)],
					["failing", number(mirrors.failing), mirrors.failing > 0 && "bad"],
					["held", number(mirrors.held), mirrors.held > 0 && "bad"],
					["not seen lately", number(mirrors.stale), mirrors.stale > 0 && "wait"],
					lists.failing > 0 && ["lists failing", number(lists.failing), "bad"],
					lists.stale > 0 && ["lists not read lately", number(lists.stale), "wait"],
					checkouts.failing > 0 && ["working trees failing",
						number(checkouts.failing), "bad"])],
			"place"),
		arrow(false, TONES[state]));
}

function toSecondary(one) {
	const state = one.twice || one.in_sync === null ? "not heard"
		: one.in_sync ? "up to date" : one.failing || one.held ? "failing"
			: one.reason === "secondary_partial" ? "copies not all" : "catching up";
	return h("li", { class: "flow to", key: "site " + one.site },
		arrow(one.behind > 0, TONES[state]),
		place(one.site, "secondary", word(state), [
			facts(["lag", duration(one.lag), one.lag > 300 && "wait"],
				["behind", number(one.behind), one.behind > 0 && "wait"],
				["failing", number(one.failing), one.failing > 0 && "bad"],
				["held", number(one.held), one.held > 0 && "bad"],
				["heard", one.age === null ? ago(one.seen_at) : duration(one.age) + " ago"]),
			curve("site", one.site)], "place"));
}

/* What is owed, or cannot be read, may be for any of them. */
function toRemote(one, push) {
	const state = one.failing || one.given_up ? "failing" : one.running ? "running"
		: one.waiting ? "waiting" : push && push.owed + push.unreadable > 0 ? "unknown" : "up to date";
	return h("li", { class: "flow to", key: "remote " + one.name },
		arrow(one.running > 0, TONES[state]),
		place(one.name, "remote", word(state), [
			facts(["oldest change", one.waiting + one.running > 0 ? duration(one.lag) : "–"],
				["waiting", number(one.waiting), one.waiting > 0 && "wait"],
				["running", number(one.running)],
				["failing", number(one.failing), one.failing > 0 && "bad"],
				["given up", number(one.given_up), one.given_up > 0 && "bad"]),
			one.failure ? h("p", { class: "why" }, said(one.failure.message)) : null,
			curve("remote", one.name)], "place"));
}

function here(status) {
	const counts = status.repositories;
	const isCopy = status.role === "secondary", tone = toneOf(status);
	const state = tone === "good" ? "up to date" : tone === "wait" ? "catching up"
		: counts.held > 0 && !counts.failed ? "held" : "failing";
	return h("div", { class: "here", key: "here" },
		place(status.site, status.role, word(state), [
			facts(["repositories", h("a", { href: listLink(REPOSITORY) }, number(counts.all))],
				isCopy && ["verified", number(counts.verified)],
				isCopy && ["lag", duration(status.lag), status.lag > 300 && "wait"],
				!isCopy && ["last event", number(status.last_event)]),
			isCopy ? curve("site", status.site) : null], "place"));
}

function map(status) {
	const from = [], to = [];
	if (status.role === "secondary")
		from.push(fromPrimary(status));
	if (status.mirrors && status.mirrors.all + status.mirrors.lists.all > 0)
		from.push(fromUpstreams(status));
	for (const one of (status.secondaries || []).slice(0, 24))
		to.push(toSecondary(one));
	for (const one of (status.remotes || []).slice(0, 24))
		to.push(toRemote(one, status.push));
	const left = (status.secondaries || []).length + (status.remotes || []).length - to.length;
	return section("Sites and destinations", "map", h("div", { class: "map" },
		from.length ? h("ul", { class: "flows", key: "from" }, from) : null,
		here(status),
		to.length ? h("ul", { class: "flows wide", key: "to" }, to,
			left > 0 ? h("li", { class: "muted", key: "left" }, "and " + left + " more") : null)
			: null));
}

/* To be copied, and not held. */
const waitingCount = (one) => Math.max(0, one.pending - one.held);

/* The kinds that have held rows, each with its counts. */
const heldKinds = (status) => [[REPOSITORY, status.repositories], ...Object.entries(status.blobs || {})]
	.filter(([, one]) => one.held > 0);

/* How many are in each state; each number leads to its rows. */
function counts(kind, title, one, role) {
	const isCopy = role === "secondary";
	const isBad = one.failed || (one.failures || []).length;
	const failing = isCopy ? one.failed : (one.failures || []).reduce((sum, f) => sum + f.count, 0);
	const tile = (label, count, state, tone) => h("a", { key: label,
		class: "tile " + (count > 0 && tone ? tone : ""), href: listLink(kind, state) },
		h("span", { class: "count" }, number(count)), h("span", {}, label));
	return h("div", { class: "counts", key: "counts " + kind },
		h("h3", {}, title, one.bytes !== undefined ? h("span", { class: "muted" },
			" " + bytes(one.bytes)) : null),
		h("div", { class: "tiles" },
			tile("all", one.all, ""),
			isCopy ? [tile("copied", one.synced, "synced",
				one.verified === one.synced ? "good" : "busy"),
				tile("waiting", waitingCount(one), "waiting", "wait"),
				tile("running", one.started, "started", "busy")]
				: [h("span", { class: "tile good", key: "readable" },
					h("span", { class: "count" }, number(one.verification.succeeded)),
					h("span", {}, "verified"))],
			tile("failing", failing, "failed", isBad && "bad"),
			isCopy ? [tile("held", one.held, "held", "bad"),
				tile("missing on primary", one.missing_on_primary, "missing_on_primary", "bad")]
				: null));
}

function figures(status) {
	const rates = S.running && S.running.rates;
	const isCopy = status.role === "secondary";
	const verification = status.repositories.verification;
	return section("Numbers", "numbers",
		counts(REPOSITORY, "Repositories", status.repositories, status.role),
		Object.entries(status.blobs || {}).map(([kind, one]) =>
			counts(kind, ["Blobs of type ", name(kind)], one, status.role)),
		facts(
			rates && ["last 5 minutes", several(rates.five_minutes.jobs, "job") + ", " +
				bytes(rates.five_minutes.bytes) + " (" + bytes(rates.five_minutes.bytes / 300) + "/s)"],
			rates && ["last hour", several(rates.hour.jobs, "job") + ", " + bytes(rates.hour.bytes)],
			rates && ["last change copied", ago(rates.last_sync_at)],
			rates && ["last verification", ago(rates.last_verified_at)],
			["to verify", number(verification.pending + verification.started)],
			isCopy && ["compared with the primary", status.compared_age === null ?
				ago(status.compared_at) : duration(status.compared_age) + " ago"],
			status.scan && ["last full scan", ago(status.scan.whole_at)],
			status.last_event_at && ["last change", ago(status.last_event_at)]));
}

function trouble(key, title, message, remedy, ...more) {
	return h("li", { class: "trouble", key }, h("strong", {}, title),
		message ? h("p", {}, said(message)) : null,
		remedy ? h("p", { class: "remedy" }, "What to do: ", said(remedy)) : null, ...more);
}

/* One failure of the site as a whole; null: there is none. */
const whole = (key, title, failure) => failure ?
	trouble(key, title, failure.message, failure.remedy) : null;

function failing(kind, counts) {
	return (counts.failures || []).map((one) => trouble("failing " + kind + one.class,
		[several(one.count, kind === REPOSITORY ? "repository" : "blob",
			kind === REPOSITORY ? "repositories" : "blobs"), " failing: ", one.class],
		one.message, one.remedy,
		h("p", { class: "muted" }, "For example ", link(kind, one.example), " · ",
			h("a", { href: listLink(kind, "failed") }, "all that fail"))));
}

/* One failure of those that mirror, with one example. */
const ofMirrors = (key, title, one) => trouble(key, title, one.failure, one.remedy,
	h("p", { class: "muted" }, "For example ", name(one.example || "")));

function mirrorTroubles(mirrors) {
	const { lists, checkouts } = mirrors;
	return [
		mirrors.failing > 0 && ofMirrors("mirrors", several(mirrors.failing, "mirror") + " failing",
			mirrors),
		lists.failing + lists.stale > 0 && ofMirrors("lists", lists.failing > 0
			? several(lists.failing, "list of mirrors", "lists of mirrors") + " failing"
			: several(lists.stale, "list of mirrors", "lists of mirrors") + " not read lately", lists),
		checkouts.failing > 0 && ofMirrors("checkouts",
			several(checkouts.failing, "working tree") + " failing", checkouts),
	];
}

function troubles(status) {
	const list = [
		whole("write", "This site cannot write", status.write_failure),
		whole("primary", "The primary cannot be reached", status.failure),
		whole("root", "The copies are not where they were", status.root_failure),
		whole("scan", "The last scan failed", status.scan && status.scan.failure),
		whole("leases", "The server of the leases does not answer; changes wait",
			status.leases_failure),
		whole("push", "The queue of pushes cannot be read", status.push && status.push.failure),
		failing(REPOSITORY, status.repositories),
		Object.entries(status.blobs || {}).map(([kind, one]) => failing(kind, one)),
		(status.remotes || []).filter((one) => one.failure).map((one) => trouble(
			"remote " + one.name, ["Pushes to ", name(one.name), " fail: ", one.failure.code],
			one.failure.message, one.failure.remedy,
			h("p", { class: "muted" }, "For example ", name(one.failing_example || "")))),
		status.mirrors ? mirrorTroubles(status.mirrors) : null,
		status.left_out > 0 ? trouble("left out", several(status.left_out, "repository",
			"repositories") + " of the primary cannot be here", status.left_out_example) : null,
		Object.entries(status.blobs || {}).map(([kind, one]) => one.left_out > 0 && trouble(
			"left out " + kind, [several(one.left_out, "blob"), " of kind ", name(kind), " left out"],
			one.left_out_example)),
		(status.lfs_lacking || []).slice(0, FEW).map((one) => trouble("lfs " + one.name,
			[link(REPOSITORY, one.name), " names objects of Git LFS that are not here"],
			number(one.absent) + " of " + number(one.named) + " are absent")),
	].flat(2).filter(Boolean);
	return list.length ? section("Failing", "failing", h("ul", { class: "troubles" }, list)) : null;
}

/* Mirrors that are held, but not among the rows: there are too many. The example is of one of
 * them if nothing fails and no row has its name. */
function heldElsewhere(mirrors, count) {
	const isOne = mirrors.failing === 0 && mirrors.example &&
		!(S.mirrors || []).some((one) => one.name === mirrors.example);
	return trouble("mirrors elsewhere", several(count, "mirror") + " held that no row here shows",
		isOne ? mirrors.example + ": " + mirrors.failure : "", isOne ? mirrors.remedy : "",
		command("refrelay mirror list"));
}

function heldView(status) {
	const rows = S.held.map(({ kind, row }) => h("li", { class: "trouble", key: kind + row.name },
		h("strong", {}, link(kind, row.name)), h("p", {}, said(row.held_reason)),
		row.remedy ? h("p", { class: "remedy" }, "What to do: ", said(row.remedy)) : null,
		releaseOf(kind, row)));
	const mirrors = (S.mirrors || []).filter((one) => one.held_reason).slice(0, 50).map((one) =>
		h("li", { class: "trouble", key: "mirror " + one.name },
			h("strong", {}, "mirror ", name(one.name)), h("p", {}, said(one.held_reason)),
			one.gone && one.remedy ? h("p", { class: "remedy" }, "What to do: ", said(one.remedy)) : null,
			command(one.gone ? "refrelay mirror remove" : "refrelay mirror sync --force", operand(one.name))));
	const more = status.mirrors ? status.mirrors.held - mirrors.length : 0;
	if (more > 0)
		mirrors.push(heldElsewhere(status.mirrors, more));
	if (!rows.length && !mirrors.length && !S.unread.held)
		return null;
	const kinds = heldKinds(status), all = kinds.reduce((sum, [, one]) => sum + one.held, 0);
	return section("Held: needs your decision", "held", unreadText("held", "What is held"), h("ul", { class: "troubles" }, rows, mirrors),
		all > rows.length ? h("p", { class: "muted" }, "All that are held: ", kinds.map(([kind, one], i) =>
			[i ? ", " : "", h("a", { href: listLink(kind, "held") }, kind === REPOSITORY
				? several(one.held, "repository", "repositories")
				: [several(one.held, "blob"), " of type ", name(kind)])])) : null);
}

/* The lease by which a running job works, found by the name that it is of. */
function holderOf(rowName) {
	const lease = S.leases.find((one) => one.name === rowName);
	return lease ? [name(lease.node), " (process " + lease.pid + ")"]
		: S.unread.leases ? "could not be read" : "–";
}

function progress(job) {
	if (job.size > 0 && job.what === "sync")
		return [h("progress", { max: job.size, value: Math.min(job.bytes, job.size),
			"aria-label": "Bytes that arrived" }), " " + bytes(job.bytes) + " of " + bytes(job.size)];
	return job.bytes > 0 ? bytes(job.bytes) : "–";
}

/* How many pushes the status counts that no row shows; the answer has the first rows only. */
function notShown(rows, count, shown, what) {
	const more = rows.length < QUEUE_ROWS ? 0 : count - shown;
	return more > 0 ? h("p", { class: "muted", key: "not shown " + what }, several(more, "more push", "more pushes") +
		" " + what + ". All: ", command("refrelay push queue")) : null;
}

const ofRemotes = (status, key) => (status.remotes || []).reduce((sum, one) => sum + one[key], 0);

function runningView(status) {
	const jobs = S.running ? S.running.running : [];
	const queue = S.queue ? S.queue.queue : [], pushes = queue.filter((one) => one.state === "running");
	if (!jobs.length && !pushes.length && !S.unread.running)
		return null;
	return section("Running", "running", unreadText("running", "What runs"),
		jobs.length ? table("Jobs that run now", ["What", "Name", "For", "Arrived", "Holder"],
			jobs.slice(0, 50).map((job) => keyed(job.what + job.kind + job.name, [
				word(job.phase || (job.what === "sync" ? "copying" : "verifying")),
				[link(job.kind, job.name), job.rows > 1 ? " and " + number(job.rows - 1) + " more" : ""],
				duration(job.took), progress(job), holderOf(job.name)]))) : null,
		pushes.length ? table("Pushes that run now", ["What", "Name", "To", "Since", "Node"],
			pushes.map((one) => keyed(one.key, ["push", name(one.project),
				name(one.remote), ago(one.running_since), name(one.node || "–")]))) : null,
		notShown(queue, ofRemotes(status, "running"), pushes.length, "running"));
}

function waitingView(status) {
	const pushes = S.queue ? S.queue.queue.filter((one) => one.state !== "running") : [];
	const letters = S.queue ? S.queue.given_up : [];
	const push = status.push || {}, left = pushes.filter((one) => one.state === "orphan").length;
	const orphans = (push.orphans || 0) - left;
	const unseen = S.queue ? notShown(S.queue.queue, ofRemotes(status, "waiting"), pushes.length - left, "waiting") : null;
	if (!S.waiting.length && !pushes.length && !unseen && !letters.length && !S.unread.waiting && !S.unread.queue)
		return null;
	return section("Waiting", "waiting", unreadText("waiting", "What waits"),
		unreadText("queue", "The queue of pushes"),
		S.waiting.length ? table("Repositories that wait", ["State", "Name", "Due", "Lag"],
			S.waiting.map((row) => keyed(row.name, [word(wordOf(row)), link(REPOSITORY, row.name),
				row.due_at ? ago(row.due_at) : "–", duration(row.lag)]))) : null,
		waitingCount(status.repositories) > FEW ? h("p", { class: "muted" },
			h("a", { href: listLink(REPOSITORY, "waiting") }, "All that wait")) : null,
		pushes.length ? table("Pushes that wait", ["State", "Repository", "To", "Next try", "Why"],
			pushes.map((one) => keyed(one.key, [word(one.state), name(one.project),
				name(one.remote), one.next_at ? ago(one.next_at) : "–",
				[one.failure ? said(one.failure.message) : "",
					one.failure || one.state === "orphan" ?
						decisionsOf(one, one.state === "orphan") : null]]))) : null,
		unseen,
		orphans > 0 ? h("p", { class: "muted", key: "orphans" }, several(orphans, "destination") +
			" of no remote not shown here. All: ", command("refrelay push queue")) : null,
		letters.length ? table("Pushes that were given up",
			["State", "Repository", "To", "Since", "Why, and what to do"],
			letters.map((one) => keyed(one.key, [word("given up"), name(one.project),
				name(one.remote), ago(one.failed_at), [one.failure ? said(one.failure.message) : "",
					decisionsOf(one, true)]]))) : null,
		notShown(letters, push.given_up, letters.length, "given up"));
}

function leasesView() {
	const leases = S.leases.filter((one) => one.operation !== one.name);
	return section("Leases", "leases", leases.length ?
		table("Leases that are held", ["What for", "Name", "Holder", "Since", "Time left", "Proof"],
			leases.slice(0, 100).map((one) => keyed(one.key, [one.operation || "–",
				name(one.name || one.key), [name(one.node), " (process " + one.pid + ")"],
				ago(one.acquired_at), duration(one.ttl_left), one.proof || ""])))
		: unreadText("leases", "The leases") ||
			h("p", { class: "muted" }, "Nobody holds a lease now."));
}

function mirrorsView(status) {
	if ((!S.mirrors || !S.mirrors.length) && !S.unread.mirrors)
		return null;
	return section("Mirrors and watchers", "mirrors", unreadText("mirrors", "The mirrors"),
		!S.mirrors ? null : table("Mirrors of upstreams", ["State", "Mirror", "Upstream", "Last success", "Watchers"],
			S.mirrors.slice(0, MIRROR_ROWS).map((one) => keyed(one.name, [word(one.word || "waiting"), name(one.name),
				one.url ? name(urlText(one.url)) : "–", ago(one.last_success_at),
				one.watchers.length ? one.watchers.map((watcher, i) => [i ? ", " : "",
					name(watcher.name), watcher.refused_at ? [" (refused ",
						ago(watcher.refused_at), ")"] : ""]) : "–"]))),
		status.mirrors.all > MIRROR_ROWS ? h("p", { class: "muted" }, "These are the first of " +
			number(status.mirrors.all) + ". All: ", command("refrelay mirror list")) : null);
}

function sentence(status) {
	return h("div", { class: "sentence " + toneOf(status), key: "sentence" },
		h("h1", {}, name(status.site), " ", h("span", { class: "muted" }, status.role)),
		h("p", { id: "sentence" }, said(status.sentence)));
}

/* For those who hear the page: not each time that an age in the sentence grows. */
function announce(status) {
	const state = status.in_sync + " " + status.reason;
	if (announce.state !== state)
		byId("told").textContent = status.sentence;
	announce.state = state;
}

function overview() {
	const status = S.status;
	return [sentence(status), heldView(status), troubles(status), map(status), runningView(status),
		waitingView(status), figures(status), mirrorsView(status), leasesView()];
}

/* ---- lists: a page of rows at a time ---- */

const STATES = [["", "all"], ["synced", "copied"], ["waiting", "waiting"],
	["started", "running"], ["failed", "failing"], ["held", "held"], ["gone", "gone"],
	["missing_on_primary", "missing on primary"]];

function setFilter(change) {
	const { kind, search, state } = { ...S.view, ...change };
	const words = [search ? "search=" + encodeURIComponent(search) : "", state ? "state=" + state : ""];
	const query = words.filter(Boolean).join("&");
	S.list = null;
	history.replaceState(null, "", "#/list/" + enc(kind) + (query ? "?" + query : ""));
	route();
}

function typed(event) {
	const search = event.target.value;
	clearTimeout(typed.timer);
	typed.timer = setTimeout(() => setFilter({ search }), 250);
}

async function turn(step) {
	const list = S.list;
	if (step > 0)
		list.pages.push(list.next);
	else
		list.pages.pop();
	list.isTurning = true;
	draw();
	await refresh().catch(lost);
	list.isTurning = false;
	draw();
	byId("rows").focus();
}

function listRows() {
	const list = S.list, kind = S.view.kind;
	if (!list || !list.rows)
		return h("p", { class: "muted" }, "Loading…");
	if (!list.rows.length)
		return h("p", { class: "muted" }, list.why ? said(list.why) : "Nothing here fits that.");
	const isCopy = S.status.role === "secondary";
	const heads = isCopy ? ["State", "Name", "Lag", "Verified", "Why"]
		: ["State", "Name", "Generation", "Changed", "Verified"];
	return table("Rows", heads, list.rows.map((row) => keyed(row.name, isCopy ?
		[word(wordOf(row)), link(kind, row.name), duration(row.lag), ago(row.verified_at),
			said(row.held_reason || row.failure || "")]
		: [word(wordOf(row)), link(kind, row.name), number(row.generation),
			ago(row.changed_at), ago(row.verified_at)])));
}

function listView() {
	const { kind, search, state } = S.view, list = S.list;
	const kinds = [REPOSITORY, ...Object.keys(S.status.blobs || {})];
	const states = S.status.role === "secondary" ? STATES
		: STATES.filter(([value]) => !value || value === "failed");
	return [h("section", { class: "panel", "aria-labelledby": "list-title", key: "list" },
		h("h1", { id: "list-title" }, kind === REPOSITORY ? "Repositories" : ["Blobs: ", name(kind)]),
		h("form", { class: "filters", role: "search", onsubmit: (event) => event.preventDefault() },
			h("div", {}, h("label", { for: "search" }, "Search"),
				h("input", { id: "search", type: "search", autocomplete: "off", spellcheck: "false",
					placeholder: "part of a name", oninput: typed, key: "search" })),
			h("div", {}, h("label", { for: "state" }, "State"),
				h("select", { id: "state", onchange: (event) => setFilter({ state: event.target.value }) },
					states.map(([value, text]) => h("option",
						{ value, selected: value === state }, text)))),
			kinds.length > 1 ? h("div", {}, h("label", { for: "kind" }, "Kind"),
				h("select", { id: "kind", onchange: (event) => setFilter({ kind: event.target.value }) },
					kinds.map((one) => h("option", { value: one, selected: one === kind },
						one === REPOSITORY ? "repositories" : one)))) : null),
		h("div", { id: "rows", tabindex: "-1", "aria-busy": list && list.rows ? "false" : "true" },
			listRows()),
		list && list.rows ? h("div", { class: "buttons", key: "pages" },
			button("Previous", () => turn(-1), { disabled: list.isTurning || list.pages.length < 2 }),
			h("span", { class: "muted" }, "Page " + list.pages.length),
			button("Next", () => turn(1), { disabled: list.isTurning || !list.next })) : null)];
}

async function loadList() {
	const { kind, search, state } = S.view;
	if (!S.list)
		S.list = { rows: null, next: null, pages: [""] };
	const list = S.list;
	const after = list.pages.at(-1);
	let page = {}, why = "";
	try {
		page = await ask(rowsPath(kind) + "?limit=" + LIST_ROWS +
			(after ? "&after=" + encodeURIComponent(after) : "") +
			(search ? "&search=" + encodeURIComponent(search) : "") +
			(state ? "&state=" + encodeURIComponent(state) : ""));
	} catch (error) {
		if (!(error instanceof Refused) || error.status === 401)
			throw error;
		why = explain(error);
	}
	if (list !== S.list || after !== list.pages.at(-1))
		return;
	Object.assign(list, { rows: rowsOf(page), next: page.next || null, why });
}

/* ---- one row ---- */

function generations(row) {
	const status = S.status;
	if (status.role === "secondary")
		return table("Generations", ["Site", "Generation", "Checksum"], [
			["primary (as it told)", number(row.generation_wanted),
				h("code", { class: "sum" }, row.primary_checksum || "not known yet")],
			[[name(status.site), " (here)"], number(row.generation),
				h("code", { class: "sum" }, row.checksum || "not verified yet")]]);
	const last = S.item.events.length ? S.item.events[0].id : 0;
	return table("Generations", ["Site", "Generation"], [
		[[name(status.site), " (here)"], [number(row.generation), " ",
			h("code", { class: "sum" }, row.checksum || "")]],
		...(status.secondaries || []).map((one) => [name(one.site),
			last === 0 ? "see the page of that site" : one.cursor >= last
				? "knows of " + number(row.generation) + "; its page shows whether it is there"
				: "has not heard of the last change"])]);
}

function historyView(row) {
	const ends = S.item.history;
	if (S.status.role === "primary" && !ends.length && !S.unread.history)
		return null;
	return section("Syncs and verifications", "history", h("p", { class: "muted" },
		"Since the node was started."), ends.length ?
		table("History", ["When", "What", "Result", "Took", "Arrived", "Why"],
			ends.map((one, i) => keyed(one.at + i, [ago(one.at), one.what, one.result,
				duration(one.took), one.bytes ? bytes(one.bytes) : "–",
				one.failure ? [one.failure.code, ": ", said(one.failure.message)]
					: one.held_reason ? said(one.held_reason) : ""])))
		: unreadText("history", "The history") || h("p", { class: "muted" }, "None yet."));
}

function refText(change) {
	if (change.ref !== undefined)
		return change.ref;
	try {
		return atob(change.ref_base64 || "");
	} catch {
		return "?";
	}
}

function refsView() {
	const rows = [];
	for (const event of S.item.events)
		for (const change of (event.changes || []).slice(0, 20))
			rows.push(keyed(event.id + refText(change), [ago(event.at), name(refText(change)),
				h("code", {}, (change.old || "–").slice(0, 12)),
				h("code", {}, (change.new || "–").slice(0, 12))]));
	if (S.status.role !== "primary")
		return null;
	return section("Refs changed lately", "refs", rows.length ?
		table("Refs that changed", ["When", "Ref", "From", "To"], rows.slice(0, 100))
		: unreadText("history", "The refs") ||
			h("p", { class: "muted" }, "None that the event log still has."));
}

function itemButtons(kind, row) {
	const isCopy = S.status.role === "secondary";
	if (!mayOperate())
		return h("p", { class: "muted" }, "Sign in with an operator’s token to have it synced or verified.");
	const word = wordOf(row);
	return h("div", { class: "buttons" },
		isCopy && !row.gone && !row.held_reason ? [
			word === "failing" || word === "missing on primary" ?
				actButton(kind, row, "retry", "Retry now", "Try again at once") : null,
			actButton(kind, row, "sync", "Sync", "Copy now"),
			actButton(kind, row, "resync", "Resync",
				"Copy now, trust no record, and read everything")] : null,
		!row.gone ? actButton(kind, row, "reverify", "Reverify",
			"Read it again and compare") : null);
}

function itemView() {
	const { kind, name: rowName } = S.view, item = S.item;
	const head = [h("p", { class: "crumbs" }, h("a", { href: listLink(kind) },
		kind === REPOSITORY ? "Repositories" : kind)),
		h("h1", { class: "whole" }, h("bdi", {}, rowName))];
	if (!item)
		return [h("section", { class: "panel", key: "item" }, ...head,
			h("p", { class: "muted" }, "Loading…"))];
	if (!item.row)
		return [h("section", { class: "panel", key: "item" }, ...head,
			h("p", {}, said(item.why)))];
	const row = item.row, isCopy = S.status.role === "secondary";
	return [h("section", { class: "panel", key: "item" }, ...head,
		h("p", {}, word(wordOf(row)), isCopy && row.lag > 0 ? " " + duration(row.lag) + " behind" : ""),
		row.failure ? h("div", { class: "trouble" },
			h("strong", {}, "Failing: " + (row.failure_class || "")), h("p", {}, said(row.failure)),
			row.remedy ? h("p", { class: "remedy" }, "What to do: ", said(row.remedy)) : null) : null,
		row.held_reason ? h("div", { class: "trouble" }, h("strong", {}, "Held: needs your decision"),
			h("p", {}, said(row.held_reason)),
			row.remedy ? h("p", { class: "remedy" }, "What to do: ", said(row.remedy)) : null,
			releaseOf(kind, row)) : null,
		itemButtons(kind, row),
		isCopy ? facts(["last attempt", ago(row.last_attempt_at)],
			["last success", ago(row.last_success_at)], ["verified", ago(row.verified_at)],
			["next try", row.due_at ? ago(row.due_at) : "–"],
			["next verification", row.verification_due_at ? ago(row.verification_due_at) : "–"],
			["failures in a row", number(row.retry_count)], ["holder", holderOf(row.name)])
			: facts(["changed", ago(row.changed_at)], ["verified", ago(row.verified_at)]),
		generations(row)), historyView(row), refsView()];
}

async function loadItem() {
	const { kind, name: rowName } = S.view, view = S.view, unread = {};
	const [row, past, leases] = await Promise.all([
		ask(rowPath(kind, rowName)).catch((error) => {
			if (error instanceof Refused && error.status !== 401)
				return { missing: explain(error) };
			throw error;
		}),
		askIf(unread, "history", kind === REPOSITORY, rowPath(kind, rowName) + "/history"),
		askIf(unread, "leases", true, "/api/v1/leases?held=true"),
	]);
	if (view !== S.view)
		return;
	Object.assign(S, { unread, leases: leases ? leases.leases : [] });
	S.item = { row: row.missing ? null : row, why: row.missing,
		history: past ? past.history : [], events: past && past.events ? past.events : [] };
}

/* The first rows, and those after them only as long as some are held that were not found. */
async function loadMirrors(unread, wanted, mirrors) {
	const path = "/api/v1/mirrors?limit=", isHeld = (one) => one.held_reason;
	let page = await askIf(unread, "mirrors", wanted, path + MIRROR_ROWS);
	const rows = page ? page.mirrors : null, vain = loadMirrors.vain;
	const lacks = () => rows.filter(isHeld).length < mirrors.held;
	if (vain && vain.held === mirrors.held && Date.now() - vain.at < 60000)
		return vain.rows.length > 0 && rows ? rows.concat(vain.rows) : rows;
	for (let i = 0; page && page.next && i < MIRROR_PAGES && lacks(); i++) {
		page = await askIf(unread, "mirrors", true,
			path + MIRRORS_A_PAGE + "&after=" + encodeURIComponent(page.next));
		rows.push(...(page ? page.mirrors : []));
	}
	loadMirrors.vain = rows && lacks() ? { held: mirrors.held, at: Date.now(),
		rows: rows.slice(MIRROR_ROWS).filter(isHeld) } : null;
	return rows;
}

async function loadOverview() {
	const status = S.status, unread = {}, get = (...what) => askIf(unread, ...what);
	const isCopy = status.role === "secondary", hasMirrors = status.mirrors && status.mirrors.all > 0;
	const remotes = status.remotes || [], push = status.push || {};
	const [running, leases, waiting, queue, mirrors, lag, held] = await Promise.all([
		get("running", isCopy || hasMirrors, "/api/v1/running"),
		get("leases", true, "/api/v1/leases?held=true"),
		get("waiting", isCopy && waitingCount(status.repositories) > 0,
			"/api/v1/repositories?state=waiting&limit=" + FEW),
		get("queue", push.orphans > 0 || push.given_up > 0 || remotes.some(
			(one) => one.waiting + one.running + one.failing + one.given_up > 0),
			"/api/v1/push/queue?limit=" + QUEUE_ROWS),
		loadMirrors(unread, hasMirrors, status.mirrors),
		get("lag", Date.now() - S.lagAt > 55000, "/api/v1/lag?minutes=" + LAG_MINUTES),
		Promise.all(heldKinds(status).map(([kind]) => get("held", true, rowsPath(kind) + "?state=held&limit=" + FEW)
			.then((page) => rowsOf(page).map((row) => ({ kind, row }))))),
	]);
	if (lag || unread.lag)
		Object.assign(S, { lag, lagAt: lag ? Date.now() : 0 });
	Object.assign(S, { unread, running, queue, leases: leases ? leases.leases : [],
		waiting: rowsOf(waiting), mirrors, held: held.flat() });
}

/* ---- views and their addresses ---- */

function route() {
	const [path, query] = location.hash.replace(/^#/, "").split("?");
	const parts = path.split("/").filter(Boolean).map((part) => {
		try {
			return decodeURIComponent(part);
		} catch {
			return part;
		}
	});
	const words = new URLSearchParams(query || "");
	const before = S.view;
	if (parts[0] === "list")
		S.view = { what: "list", kind: parts[1] || REPOSITORY, search: words.get("search") || "",
			state: words.get("state") || "" };
	else if (parts[0] === "item" && parts.length > 2)
		S.view = { what: "item", kind: parts[1], name: parts[2] };
	else
		S.view = { what: "overview" };
	S.list = S.item = null;
	draw();
	if (S.view.what === "list" && byId("search") && document.activeElement !== byId("search"))
		byId("search").value = S.view.search;
	if (S.view.what === "list" && byId("state"))
		byId("state").value = S.view.state;
	if (before && before.what !== S.view.what) {
		byId("main").focus({ preventScroll: true });
		window.scrollTo(0, 0);
	}
	if (S.status)
		refresh().then(draw, lost);
}

async function refresh() {
	if (!S.status)
		return;
	if (S.view.what === "list")
		await loadList();
	else if (S.view.what === "item")
		await loadItem();
	else
		await loadOverview();
}

function account() {
	if (!S.who)
		return [];
	return [h("span", { class: "muted who", key: "who" }, S.who.name ? name(S.who.name) : "this machine",
		mayOperate() ? "" : ", read-only"),
		token() ? button("Sign out", signOut, { class: "small" })
			: button("Sign in", () => {
				S.needsToken = true;
				draw();
				byId("token").focus();
			}, { class: "small" })];
}

function navigation() {
	if (!S.status || S.needsToken)
		return [];
	const item = (text, href, is) => h("a", { href, "aria-current": is ? "page" : false, key: text }, text);
	return [item("Overview", "#/", S.view.what === "overview"),
		S.status.role === "standalone" ? null :
			item("Repositories", listLink(REPOSITORY), S.view.what !== "overview")].filter(Boolean);
}

const clockText = (at) => new Date(at).toLocaleTimeString("en-GB");

/* What is shown proves nothing about now: the node is away, or has not been asked for long. */
const isOld = () => S.awayAt > 0 || (!!S.status && Date.now() - S.shownAt > OLD_MS);

function awayText() {
	const last = (S.status ? ". This is what it said last." : ".") + " Trying again…";
	if (S.awayAt)
		return [S.awayWhy ? h("p", {}, "The node only answers with an error since " +
			clockText(S.awayAt) + ": ", said(S.awayWhy), last)
			: h("p", {}, "The node does not answer since " + clockText(S.awayAt) + last)];
	return isOld() ? [h("p", {}, "This is what the node said at " + clockText(S.shownAt) +
		". Asking again…")] : [];
}

function icon(tone) {
	const colour = { good: "%231a7f4b", wait: "%23b07500", bad: "%23b3261e" }[tone] || "%23888";
	const href = "data:image/svg+xml,%3Csvg xmlns='http://www.w3.org/2000/svg' viewBox='0 0 16 16'" +
		"%3E%3Ccircle cx='8' cy='8' r='7' fill='" + colour + "'/%3E%3C/svg%3E";
	if (byId("icon").getAttribute("href") !== href)
		byId("icon").setAttribute("href", href);
}

function draw() {
	const isSignIn = S.needsToken, isPast = isOld();
	const tone = !S.status || isSignIn || isPast || document.hidden ? "" : toneOf(S.status);
	icon(tone);
	document.title = (!tone ? "? " : tone === "good" ? "" : "! ") +
		(S.status ? S.status.site + " – " : "") + "refrelay";
	paint(byId("away"), isSignIn ? [] : awayText());
	document.body.classList.toggle("stale", !isSignIn && isPast);
	paint(byId("nav"), navigation());
	paint(byId("account"), isSignIn ? [] : account());
	if (isSignIn)
		paint(byId("main"), signInView());
	else if (!S.status)
		paint(byId("main"), S.awayAt ? [] : [h("p", { class: "muted" }, "Loading…")]);
	else
		paint(byId("main"), { list: listView, item: itemView, overview }[S.view.what]()
			.flat(Infinity).filter(Boolean));
	if (S.status && !isSignIn && !isPast)
		announce(S.status);
	paint(byId("foot"), !S.status || isSignIn ? [] : [h("p", { class: "muted" },
		"refrelay " + (S.who ? S.who.program : ""), " · as of ",
		h("time", { datetime: S.status.at }, clockText(S.shownAt)))]);
}

/* ---- live ---- */

function lost(error) {
	if (error instanceof Refused && error.status === 401) {
		S.needsToken = true;
		S.tokenFails = token() ? error.message : "";
		sessionStorage.removeItem(TOKEN);
		S.who = null;
	} else if (error instanceof Refused && error.status === 403) {
		S.needsToken = true;
		S.tokenFails = explain(error);
	} else {
		const why = error instanceof Refused ? explain(error) : "";
		if (!S.awayAt || !why !== !S.awayWhy)
			S.awayAt = Date.now();
		S.awayWhy = why;
	}
	draw();
}

const pause = (ms) => new Promise((resolve) => setTimeout(resolve, ms));

function whenSeen() {
	return document.hidden ? new Promise((resolve) => document.addEventListener("visibilitychange",
		resolve, { once: true })) : null;
}

/* An answer to an ended run may be another token's. */
async function learnWho(run) {
	const who = await ask("/api/v1/whoami");
	if (run === start.run)
		S.who = who;
}

async function follow(run) {
	if (!S.who)
		await learnWho(run);
	/* What is shown must not get old while the answer waits for a change. */
	const isYoung = !S.awayAt && Date.now() - S.shownAt < OLD_MS / 2;
	const wait = S.version && isYoung ? "?wait=10&version=" + encodeURIComponent(S.version) : "";
	const status = await ask("/api/v1/status" + wait);
	const arrived = Date.now();
	if (S.awayAt)
		await learnWho(run);
	if (run !== start.run)
		return;
	Object.assign(S, { status, version: status.version, shownAt: arrived, awayAt: 0,
		clock: Date.parse(status.at) - arrived });
	await refresh();
	draw();
	return Date.now() - arrived + status.took * 1000;
}

/* One loop at a time; a new start ends the one before. A slow node is asked less often. */
async function start() {
	const run = start.run = (start.run || 0) + 1;
	S.needsToken = false;
	draw();
	for (let failures = 0; run === start.run && !S.needsToken;) {
		const begun = Date.now();
		let took = 0;
		try {
			took = await follow(run);
			failures = 0;
		} catch (error) {
			if (run !== start.run)
				return;
			lost(error);
			failures++;
		}
		await pause(failures ? Math.min(500 * 2 ** failures, 4000)
			: Math.min(OLD_MS / 2, Math.max(300, 1000 - (Date.now() - begun), 3 * took)));
		await whenSeen();
	}
}

function pressed(event) {
	if (event.key !== "/" || event.ctrlKey || event.altKey || event.metaKey ||
		/^(INPUT|SELECT|TEXTAREA)$/.test(event.target.tagName) || S.needsToken)
		return;
	event.preventDefault();
	if (S.view.what !== "list")
		location.hash = listLink(REPOSITORY);
	setTimeout(() => byId("search") && byId("search").focus(), 50);
}

paint(byId("main"), []);
byId("main").textContent = "";
window.addEventListener("hashchange", route);
document.addEventListener("keydown", pressed);
document.addEventListener("visibilitychange", draw);
setInterval(() => !document.hidden && S.status && draw(), 5000);
route();
start();
})();
