// Looks at a node's page as people do, in a real Chromium. Used by tests/lib/paged.sh.
//
//	drive.js browser FILE           runs the browser until it is killed; FILE: how it is reached
//	drive.js SCENARIO ARGUMENT...   one of those below, in that browser ($BROWSER names FILE)
//
// Each scenario fails, too, if the page has broken its policy, thrown an error, or opened a
// dialog of the browser.

"use strict";
const assert = require("assert");
const { execFileSync } = require("child_process");
const fs = require("fs");
const path = require("path");
const { chromium } = require("playwright-core");

const PATIENCE = 90000;
const LONGEST_TASK = 2000;

async function runBrowser(file) {
	const server = await chromium.launchServer({
		executablePath: process.env.CHROMIUM || "/usr/bin/chromium",
		args: ["--no-sandbox", "--disable-dev-shm-usage", "--disable-gpu"],
	});
	fs.writeFileSync(file + ".new", server.wsEndpoint());
	fs.renameSync(file + ".new", file);
}

const bad = [];

async function open(browser, url, { token, dark, phone, mock } = {}) {
	const context = await browser.newContext({
		colorScheme: dark ? "dark" : "light",
		viewport: phone ? { width: 360, height: 740 } : { width: 1240, height: 900 },
		isMobile: !!phone, hasTouch: !!phone, deviceScaleFactor: phone ? 1.5 : 1,
		reducedMotion: "reduce",
	});
	context.setDefaultTimeout(PATIENCE);
	await context.addInitScript((shown) => {
		window.broken = [];
		window.tasks = [];
		document.addEventListener("securitypolicyviolation", (event) =>
			window.broken.push(event.violatedDirective + " " + event.blockedURI));
		new PerformanceObserver((list) => window.tasks.push(
			...list.getEntries().map((task) => task.duration))).observe({ entryTypes: ["longtask"] });
		if (shown)
			sessionStorage.setItem("refrelay.token", shown);
	}, token || "");
	const page = await context.newPage();
	page.on("pageerror", (error) => bad.push("error: " + error.stack));
	page.on("dialog", (dialog) => {
		bad.push("dialog: " + dialog.message());
		dialog.dismiss();
	});
	page.on("console", (message) => /content security policy/i.test(message.text()) &&
		bad.push(message.text()));
	page.on("request", (request) => {
		if (new URL(request.url()).origin !== new URL(url).origin && !request.url().startsWith("data:"))
			bad.push("it asked " + request.url());
		if (token && request.url().includes(token))
			bad.push("the token is in a URL");
	});
	if (mock)
		for (const [pattern, answer] of Object.entries(mock))
			await page.route(pattern, typeof answer === "function" ? answer
				: (route) => route.fulfill({ json: answer }));
	await page.goto(url);
	return page;
}

async function leave(page) {
	bad.push(...await page.evaluate(() => window.broken));
	await page.context().close();
}

const sees = (page, selector, text) =>
	page.locator(selector).filter({ hasText: text }).first().waitFor();
const has = (page, selector) => page.locator(selector).count();

async function visit(page, hash) {
	await page.evaluate((to) => { location.hash = to; }, hash);
}

async function isAccessible(page, what) {
	await page.evaluate(fs.readFileSync(require.resolve("axe-core/axe.min.js"), "utf8"));
	const result = await page.evaluate(() => window.axe.run(document));
	const found = result.violations.filter((one) => ["serious", "critical"].includes(one.impact));
	assert.deepStrictEqual(found.map((one) => what + ": " + one.id + ": " +
		one.nodes.map((node) => node.target + " " + node.failureSummary).join("; ")), []);
	assert(result.passes.length > 10, what + ": axe looked at next to nothing");
}

async function isNarrow(page, what) {
	const wide = await page.evaluate(() => {
		const most = document.documentElement.clientWidth;
		return [document.scrollingElement.scrollWidth > most ? "scrolls to " +
			document.scrollingElement.scrollWidth + " of " + most : "", ...[...document.querySelectorAll("body *")]
			.filter((element) => element.getBoundingClientRect().right > most + 1 &&
				getComputedStyle(element).position !== "absolute" && !element.closest(".skip, .unseen"))
			.map((element) => element.tagName + "." + element.className)];
	});
	assert(wide[0] === "", what + ": " + wide.join(" "));
}

async function picture(page, name) {
	const folder = process.env.PAGE_SCREENSHOTS;
	if (folder)
		await page.screenshot({ path: path.join(folder, name + ".png"), animations: "disabled" });
}

const apiRow = async (url, token, name) => (await fetch(
	url + "/api/v1/repositories/" + encodeURIComponent(name),
	{ headers: { Authorization: "Bearer " + token } })).json();

const sleep = (ms) => new Promise((resolve) => setTimeout(resolve, ms));

/* The status of a site as it is when all is well, for mocks. */
async function wellStatus(url, token) {
	const status = await (await fetch(url + "/api/v1/status",
		{ headers: token ? { Authorization: "Bearer " + token } : {} })).json();
	if (status.role === "secondary") {
		Object.assign(status, { failure: null, heard_age: 1 });
		Object.assign(status.repositories, { failed: 0, held: 0, verified: status.repositories.synced });
	}
	return { ...status, in_sync: true, reason: null };
}

const GREY = /%23888/, GREEN = /%231a7f4b/;
const hasIcon = async (page, colour) =>
	assert.match(await page.locator("#icon").getAttribute("href"), colour);

async function hide(page, isHidden) {
	await page.evaluate((value) => {
		Object.defineProperty(document, "hidden", { configurable: true, get: () => value });
		document.dispatchEvent(new Event("visibilitychange"));
	}, isHidden);
}

const scenarios = {

	// A site that is in sync says so, with its numbers, map, curve and leases.
	async overview(browser, url, sentence, tone, ...sections) {
		const page = await open(browser, url);
		await sees(page, "#sentence", sentence);
		await sees(page, ".sentence." + tone, "");
		for (const section of sections)
			await sees(page, "h2", section);
		assert.match(await page.title(), tone === "good" ? /^\w/ : /^! /);
		await isAccessible(page, "overview");
		await leave(page);
	},

	// What is pushed is on the page soon after the API has it, without being asked for.
	async live(browser, url, token, name, work) {
		const page = await open(browser, url + "/#/item/repository/" + encodeURIComponent(name), { token });
		const late = [];
		await sees(page, "h2", "Syncs and verifications");
		for (let i = 0; i < 5; i++) {
			const before = (await apiRow(url, token, name)).generation;
			const seen = page.waitForFunction((was) => [...document.querySelectorAll(".table td")].some(
				(cell) => cell.textContent === String(was + 1) &&
					cell.previousSibling.textContent.includes("(here)")), before, { polling: 20 })
				.then(() => Date.now());
			execFileSync("git", ["-C", work, "commit", "-q", "--allow-empty", "-m", "change " + i]);
			execFileSync("git", ["-C", work, "push", "-q"]);
			let row;
			do {
				await sleep(30);
				row = await apiRow(url, token, name);
			} while (row.generation <= before);
			const there = Date.now();
			late.push(await seen - there);
		}
		console.log("late by ms: " + late.join(" "));
		late.sort((a, b) => a - b);
		assert(late[2] <= 2000, "the page is late by " + late.join(", ") + " ms");
		await sees(page, "td", /^updated$/);
		await leave(page);
	},

	// A primary shows who follows it, and which refs changed.
	async primary(browser, url, token, secondary, name) {
		const page = await open(browser, url, { token });
		const place = page.locator(".flow.to", { has: page.getByRole("heading", { name: secondary }) });
		await place.locator(".word.good", { hasText: "up to date" }).waitFor();
		await isAccessible(page, "primary");
		await visit(page, "#/list/repository?search=" + encodeURIComponent(name));
		await sees(page, "tbody tr", name);
		await page.locator("tbody a").first().click();
		const refs = page.locator("section", { has: page.locator("#refs") });
		await refs.locator("tbody tr", { hasText: "refs/heads/main" }).first().waitFor();
		await isAccessible(page, "primary's row");
		await leave(page);
	},

	// A site of its own: an upstream, who watches it, and where it is pushed to.
	async standalone(browser, url, mirror, watcher, remote) {
		const page = await open(browser, url);
		const mirrors = page.locator("section", { has: page.locator("#mirrors") });
		const row = mirrors.locator("tbody tr", { hasText: mirror });
		await row.locator(".word", { hasText: "up to date" }).waitFor();
		await row.locator("td", { hasText: watcher }).waitFor();
		await page.locator(".flow.from").getByRole("heading", { name: "1 upstream" }).waitFor();
		await page.locator(".flow.to", { has: page.getByRole("heading", { name: remote }) })
			.locator(".word.good").waitFor();
		await isAccessible(page, "standalone");
		await leave(page);
	},

	// Rows that fail, are held, are gone, wait.
	async troubles(browser, url) {
		const page = await open(browser, url);
		const held = page.locator("section", { has: page.locator("#held") });
		const failing = page.locator("section", { has: page.locator("#failing") });
		await held.getByText("docs", { exact: true }).waitFor();
		assert.equal(await held.locator("button", { hasText: "Release" }).count(), 0);
		await held.locator("code", { hasText: "refrelay repository sync --force docs" }).waitFor();
		await held.locator("code", { hasText: "refrelay repository remove old/1" }).first().waitFor();
		await failing.getByText("1 repository failing").waitFor();
		await failing.getByText("broken/app", { exact: true }).waitFor();
		await failing.locator(".remedy").waitFor();
		await sees(page, ".sentence.bad", "");
		await isAccessible(page, "overview with troubles");
		for (const [state, name, word] of [["failed", "broken/app", "failing"], ["held", "docs", "held"],
			["held", "old/1", "held"], ["synced", "team/app", "up to date"]]) {
			await visit(page, "#/list/repository?state=" + state);
			const row = page.locator("tbody tr", { has: page.getByText(name, { exact: true }) });
			await row.locator(".word", { hasText: word }).waitFor();
		}
		await visit(page, "#/item/repository/broken%2Fapp");
		await sees(page, ".trouble .remedy", "What to do");
		assert.equal(await has(page, "main button:has-text('Resync')"), 0);
		await isAccessible(page, "a row");
		await leave(page);
	},

	async waiting(browser, url, ...names) {
		const page = await open(browser, url);
		const waiting = page.locator("section", { has: page.locator("#waiting") });
		for (const name of names)
			await waiting.getByText(name, { exact: true }).waitFor();
		await leave(page);
	},

	// A worker has it: how much came, and who it is.
	async running(browser, url, name) {
		const page = await open(browser, url);
		const running = page.locator("section", { has: page.locator("#running") });
		const row = running.locator("tbody tr", { has: page.getByText(name, { exact: true }) });
		await row.locator(".word", { hasText: "copying" }).waitFor();
		await row.locator("td", { hasText: /B$/ }).waitFor();
		await row.locator("td", { hasText: /process \d+/ }).waitFor();
		assert.equal(await has(page, "#failing"), 0);
		await leave(page);
	},

	// Who has a lease is told; nothing fails because of it.
	async lease(browser, url, key) {
		const page = await open(browser, url);
		const leases = page.locator("section", { has: page.locator("#leases") });
		await leases.locator("tbody tr", { hasText: key }).locator("td", { hasText: /process \d+/ }).waitFor();
		assert.equal(await has(page, "#failing"), 0);
		await leave(page);
	},

	// Every word that a row can have, of an API that has them all.
	async words(browser, url) {
		const words = { "up to date": "good", verifying: "busy", copying: "busy", behind: "wait",
			waiting: "wait", held: "bad", failing: "bad", gone: "bad", "missing on primary": "bad" };
		const rows = Object.keys(words).map((word) => ({ name: "is " + word, word, lag: 1,
			state: "synced", held_reason: word === "held" ? "because" : null }));
		const page = await open(browser, url + "/#/list/repository",
			{ mock: { "**/api/v1/repositories?*": { repositories: rows } } });
		for (const [word, tone] of Object.entries(words)) {
			const row = page.locator("tbody tr", { has: page.getByText("is " + word, { exact: true }) });
			await row.locator(".word." + tone, { hasText: word }).waitFor();
		}
		await isAccessible(page, "all words");
		await leave(page);
	},

	// What is not proved has no green word: a primary that was never heard, copies that nobody
	// has read, mirrors that are behind, and what a list or a working tree lacks.
	async unproved(browser, url) {
		const status = await wellStatus(url);
		const none = { failing: 0, stale: 0, all: 0, example: null, failure: null, remedy: null };
		const fails = { ...none, failing: 1, example: "acme", failure: "it fails", remedy: "mend it" };
		const mirrors = { ...none, all: 3, synced: 3, held: 0, lists: { ...none, all: 1 }, checkouts: none };
		const page = await open(browser, url, { mock: {
			"**/api/v1/status*": (route) => route.fulfill({ json: status }),
			"**/api/v1/mirrors?*": { mirrors: [] } } });
		const place = (key) => page.locator(".flow.from", { hasText: key });
		const shows = async (key, word, tone, change) => {
			Object.assign(status, change);
			await place(key).locator(".word." + tone, { hasText: word }).waitFor();
			await place(key).locator(".arrow." + tone).waitFor();
		};
		const upstreams = (word, tone, change) =>
			shows("mirrored here", word, tone, { mirrors: { ...mirrors, ...change } });
		const failing = page.locator("section", { has: page.locator("#failing") });
		await shows("primary", "up to date", "good", {});
		await shows("primary", "not heard", "bad", { heard_age: null, heard_at: null });
		await shows("primary", "not heard", "bad", { heard_age: 26 });
		await shows("primary", "up to date", "good", { heard_age: 24 });
		await upstreams("up to date", "good", {});
		await upstreams("behind", "wait", { synced: 2 });
		await upstreams("behind", "wait", { lists: { ...none, all: 1, stale: 1, example: "acme" } });
		await failing.getByText("1 list of mirrors not read lately").waitFor();
		Object.assign(status, { in_sync: false, reason: "checkout_fails" });
		await upstreams("failing", "bad", { checkouts: fails });
		await failing.getByText("1 working tree failing").waitFor();
		await sees(page, "#failing ~ ul .remedy", "mend it");
		await sees(page, ".sentence.bad", "");
		await upstreams("failing", "bad", { lists: { ...fails, all: 1 } });
		await failing.getByText("1 list of mirrors failing").waitFor();
		await upstreams("failing", "bad", { all: 0, synced: 0, lists: { ...fails, all: 1 } });
		const tile = page.locator(".tile", { hasText: "copied" });
		await page.locator(".tile.good", { hasText: "copied" }).waitFor();
		Object.assign(status.repositories, { verified: 0 });
		await page.locator(".tile.busy", { hasText: "copied" }).waitFor();
		assert.equal(await page.locator(".tile", { hasText: "up to date" }).count(), 0);
		assert.match(await tile.getAttribute("href"), /state=synced/);
		const paris = { site: "paris", in_sync: false, reason: "not_synced", behind: 0, failing: 0,
			held: 0, lag: 0, age: 1, twice: false };
		const copies = (word, tone, reason) => {
			status.secondaries = [{ ...paris, reason }];
			return page.locator(".flow.to .word." + tone, { hasText: word }).waitFor();
		};
		await copies("catching up", "wait", "not_synced");
		await copies("copies not all", "bad", "secondary_partial");
		status.blobs = { uploads: { ...status.repositories, left_out: 3, left_out_example: "all of it" } };
		await failing.getByText("3 blobs of kind uploads left out").waitFor();
		await isAccessible(page, "what is not proved");
		await leave(page);
	},

	// The token is typed in, kept in the tab alone, and forgotten.
	async signin(browser, url, token) {
		const page = await open(browser, url);
		await page.getByLabel("Token").waitFor();
		assert.equal(await has(page, "#sentence"), 0);
		await isAccessible(page, "sign-in");
		await page.getByLabel("Token").fill("wrong-" + token);
		await page.keyboard.press("Enter");
		await sees(page, "#token-fails", "not known");
		await page.getByLabel("Token").fill(token);
		await page.keyboard.press("Enter");
		await sees(page, "#sentence", "");
		assert(!page.url().includes(token));
		assert.equal(await page.evaluate(() => document.cookie + localStorage.length), "0");
		await page.reload();
		await sees(page, "#sentence", "");
		const other = await page.context().newPage();
		await other.goto(url);
		await other.getByLabel("Token").waitFor();
		await page.getByRole("button", { name: "Sign out" }).click();
		await page.getByLabel("Token").waitFor();
		assert.equal(await page.evaluate(() => sessionStorage.length), 0);
		await leave(page);
	},

	// Who may read without a token and thinks better of signing in sees live state again, also
	// if the request that ran meanwhile has ended; and so does who was refused at first.
	async cancel(browser, url, token, name) {
		const status = await wellStatus(url);
		let asked = 0, isRefused = false, isAway = false;
		const page = await open(browser, url, { mock: { "**/api/v1/status*": (route) => {
			asked++;
			return isAway ? route.abort()
				: isRefused ? route.fulfill({ status: 403, json: { message: "no right", remedy: "ask" } })
				: route.fulfill({ json: status });
		} } });
		await sees(page, "#sentence", "");
		await hasIcon(page, GREEN);
		await page.getByRole("button", { name: "Sign in" }).click();
		await page.getByLabel("Token").waitFor();
		await hasIcon(page, GREY);
		assert.match(await page.title(), /^\? /);
		await sleep(2500);
		const before = asked;
		await sleep(2500);
		assert.equal(asked, before, "at the sign-in nothing is asked");
		status.sentence = "another sentence";
		await page.getByRole("button", { name: "Cancel" }).click();
		await sees(page, "#sentence", "another sentence");
		await hasIcon(page, GREEN);
		const restarted = asked;
		while (asked < restarted + 2)
			await sleep(20);
		await sleep(3000);
		assert(asked - restarted < 7, "one loop asks: " + (asked - restarted));
		isRefused = true;
		await page.reload();
		await sees(page, "#token-fails", "no right");
		isRefused = false;
		await page.getByRole("button", { name: "Cancel" }).click();
		await sees(page, "#sentence", "another sentence");
		// Who signs in after all has the rights of the token at once.
		await visit(page, "#/item/repository/" + encodeURIComponent(name));
		await sees(page, ".who", "this machine, read-only");
		assert.equal(await page.getByRole("button", { name: "Sync", exact: true }).count(), 0);
		let late = null; // the answer that was asked for without the token
		await page.route("**/api/v1/whoami", (route) => {
			if (late || route.request().headers().authorization)
				return route.continue();
			late = route;
		});
		isAway = true;
		await sees(page, "#away", "does not answer since");
		isAway = false;
		while (!late)
			await sleep(20);
		await page.getByRole("button", { name: "Sign in" }).click();
		await page.getByLabel("Token").fill(token);
		await page.keyboard.press("Enter");
		await sees(page, ".who", "operator");
		const signedIn = asked;
		await late.continue();
		while (asked < signedIn + 3)
			await sleep(20);
		assert.equal(await page.locator(".who", { hasText: "read-only" }).count(), 0);
		await page.getByRole("button", { name: "Sync", exact: true }).waitFor();
		await leave(page);
	},

	// A tab that is hidden proves nothing, nor does what it shows when it is seen again.
	async hidden(browser, url) {
		const status = await wellStatus(url);
		const held = [];
		let isStalled = false, asked = 0;
		const page = await open(browser, url, { mock: { "**/api/v1/status*": (route) => {
			asked++;
			return isStalled ? held.push(route) : route.fulfill({ json: status });
		} } });
		await sees(page, "#sentence", "");
		await hasIcon(page, GREEN);
		await hide(page, true);
		await hasIcon(page, GREY);
		assert.match(await page.title(), /^\? /);
		await sleep(2500);
		const before = asked;
		await sleep(2500);
		assert.equal(asked, before, "a hidden tab asks nothing");
		await hasIcon(page, GREY);
		isStalled = true;
		await page.evaluate(() => {
			const now = Date.now.bind(Date);
			Date.now = () => now() + 40000;
		});
		await hide(page, false);
		await sees(page, "#away", "what the node said at");
		await hasIcon(page, GREY);
		assert.match(await page.title(), /^\? /);
		assert.equal(await has(page, "body.stale"), 1);
		while (!held.length)
			await sleep(20);
		assert(!held[0].request().url().includes("wait="), "it does not wait for a change");
		isStalled = false;
		await Promise.all(held.map((route) => route.fulfill({ json: status })));
		await page.waitForFunction(() => document.getElementById("away").textContent === "" &&
			!document.title.startsWith("? "));
		await hasIcon(page, GREEN);
		assert.equal(await has(page, "body.stale"), 0);
		await leave(page);
	},

	// A token that expires leaves no green tab behind.
	async expires(browser, url, token) {
		let isOver = false;
		const status = await wellStatus(url, token);
		const page = await open(browser, url, { token, mock: { "**/api/v1/status*": (route) => isOver
			? route.fulfill({ status: 401, json: { message: "the token has expired" } })
			: route.fulfill({ json: status }) } });
		await sees(page, "#sentence", "");
		await hasIcon(page, GREEN);
		isOver = true;
		await sees(page, "#token-fails", "expired");
		await hasIcon(page, GREY);
		assert.match(await page.title(), /^\? /);
		await leave(page);
	},

	async reader(browser, url, token, name) {
		const page = await open(browser, url + "/#/item/repository/" + encodeURIComponent(name), { token });
		await sees(page, ".who", "read-only");
		await sees(page, "main", "Generations");
		for (const button of ["Sync", "Resync", "Reverify", "Retry now", "Release…"])
			assert.equal(await page.getByRole("button", { name: button, exact: true }).count(), 0, button);
		await leave(page);
	},

	// By keyboard alone.
	async operator(browser, url, token, name) {
		const page = await open(browser, url + "/#/item/repository/" + encodeURIComponent(name), { token });
		for (const button of ["Sync", "Resync", "Reverify"]) {
			await page.getByRole("button", { name: button, exact: true }).focus();
			const answer = page.waitForResponse((one) => one.request().method() === "POST");
			await page.keyboard.press("Enter");
			assert.equal((await answer).status(), 200, button);
			await sees(page, "#toast", "Done");
		}
		assert.equal(await page.getByRole("button", { name: "Retry now" }).count(), 0);
		await page.getByRole("link", { name: "Repositories" }).first().focus();
		await page.keyboard.press("/");
		await page.waitForFunction(() => document.activeElement.id === "search");
		await page.keyboard.type(name);
		await page.waitForFunction((shown) => {
			const rows = [...document.querySelectorAll("tbody tr")];
			return rows.length === 1 && rows[0].textContent.includes(shown);
		}, name);
		await leave(page);
	},

	// What is in the way goes just before: the site tries again by itself, too, and the button goes.
	async retry(browser, url, token, name, obstacle) {
		const page = await open(browser, url + "/#/item/repository/" + encodeURIComponent(name), { token });
		const retry = page.getByRole("button", { name: "Retry now" });
		await retry.waitFor();
		fs.rmSync(obstacle);
		await retry.click();
		await sees(page, "main .word", "up to date");
		await leave(page);
	},

	// A push that fails is tried again; what was given up is so, too, or goes, in two steps.
	async pushes(browser, url, token, failing, lost) {
		const page = await open(browser, url, { token });
		const waiting = page.locator("section", { has: page.locator("#waiting") });
		const fails = waiting.locator("tbody tr", { hasText: failing });
		const isLost = waiting.locator("tbody tr", { hasText: lost });
		await fails.locator(".word", { hasText: "failing" }).waitFor();
		await isLost.locator(".word", { hasText: "given up" }).waitFor();
		await isAccessible(page, "pushes that fail");
		const retried = page.waitForResponse((one) => one.url().endsWith("/push/retry"));
		await fails.getByRole("button", { name: "Retry now" }).click();
		assert.equal((await (await retried).json()).done, 1);
		await sees(page, "#toast", "Done");
		assert.equal(await fails.getByRole("button", { name: "Discard…" }).count(), 0);
		await isLost.getByRole("button", { name: "Discard…" }).click();
		assert.equal(await page.getByRole("dialog").locator(":focus").textContent(), "Cancel");
		await page.keyboard.press("Enter");
		await isLost.getByRole("button", { name: "Discard…" }).click();
		await page.getByRole("button", { name: "Discard", exact: true }).click();
		await sees(page, "#toast", "discard");
		await isLost.waitFor({ state: "detached" });
		await leave(page);
	},

	// What is held is found on later pages, too, and told of if no page has it; what no remote
	// pushes any more can be discarded.
	async beyond(browser, url, token) {
		const none = { failing: 0, stale: 0, all: 0, example: null, failure: null, remedy: null };
		const rows = [...Array(1300).keys()].map((i) => ({ name: "m" + String(i).padStart(5, "0"),
			word: "up to date", url: "https://example.com/x.git", watchers: [], held_reason: null }));
		Object.assign(rows[1250], { word: "held", held_reason: "many refs would go" });
		Object.assign(rows[1251], { word: "held", held_reason: "no list has it", gone: true, url: null, remedy: "remove it" });
		const far = { name: "far", waiting: 0, running: 0, failing: 0, given_up: 0, lag: 0, failure: null };
		const status = { ...await wellStatus(url, token), remotes: [far],
			push: { failure: null, given_up: 0, orphans: 3, unreadable: 0, owed: 1 },
			mirrors: { ...none, all: 1301, synced: 1298, held: 3, lists: none, checkouts: none,
				example: "left", failure: "no list has it", remedy: "keep it" } };
		const orphan = { state: "orphan", key: "0b232039690df6344fc8a8d48fb9a4b809592f15",
			remote: "former", project: "team/left", failure: null, next_at: null };
		let queue = { queue: [orphan], given_up: [] }, pages = 0;
		const page = await open(browser, url, { token, mock: {
			"**/api/v1/status*": (route) => route.fulfill({ json: status }),
			"**/api/v1/push/queue?*": (route) => route.fulfill({ json: queue }),
			"**/api/v1/mirrors?*": (route) => {
				const words = new URL(route.request().url()).searchParams;
				const after = words.get("after") || "", limit = Number(words.get("limit"));
				pages += after ? 1 : 0;
				const left = rows.filter((row) => row.name > after);
				const some = left.slice(0, limit);
				route.fulfill({ json: { mirrors: some,
					...(left.length > limit ? { next: some.at(-1).name } : {}) } });
			} } });
		const held = page.locator("section", { has: page.locator("#held") });
		await held.getByText("m01250", { exact: true }).waitFor();
		const gone = held.locator("li", { hasText: "m01251" });
		await gone.locator(".remedy", { hasText: "remove it" }).waitFor();
		await gone.getByText("refrelay mirror remove m01251").waitFor();
		await held.getByText("1 mirror held that no row here shows").waitFor();
		await held.getByText("left: no list has it").waitFor();
		await held.locator(".remedy", { hasText: "keep it" }).waitFor();
		const mirrors = page.locator("section", { has: page.locator("#mirrors") });
		assert.equal(await mirrors.locator("tbody tr").count(), 200);
		await mirrors.getByText("These are the first of 1,301").waitFor();
		const waiting = page.locator("section", { has: page.locator("#waiting") });
		const row = waiting.locator("tbody tr", { hasText: "team/left" });
		await row.locator(".word.bad", { hasText: "orphan" }).waitFor();
		await row.getByRole("button", { name: "Discard…" }).click();
		await page.getByRole("dialog").getByText("No remote pushes it any more.").waitFor();
		await page.getByRole("button", { name: "Cancel" }).click();
		await waiting.getByText("2 destinations of no remote not shown here").waitFor();
		const flow = page.locator(".flow.to", { hasText: "far" });
		await flow.locator(".word.wait", { hasText: "unknown" }).waitFor();
		await isAccessible(page, "what is beyond the rows");
		// What no page has is not looked for again with each answer.
		for (let i = 0; i < 4; i++)
			await page.waitForResponse("**/api/v1/status*");
		assert.equal(pages, 2);
		await held.getByText("m01250", { exact: true }).waitFor();
		Object.assign(status.push, { given_up: 1, orphans: 0, owed: 0 });
		queue = { queue: [], given_up: [{ ...orphan, state: "given_up" }] };
		await row.locator(".word.bad", { hasText: "given up" }).waitFor();
		await flow.locator(".word.good", { hasText: "up to date" }).waitFor();
		// Of more than a page of pushes the others are counted.
		const some = (count, what) => [...Array(count).keys()].map((i) => ({ ...orphan, ...what, key: "k" + i }));
		Object.assign(far, { waiting: 60, running: 7, given_up: 73 });
		status.push.given_up = 73;
		queue = { queue: [...some(5, { state: "running" }), ...some(45, { state: "waiting" })],
			given_up: some(50, { state: "given_up" }) };
		const running = page.locator("section", { has: page.locator("#running") });
		await running.getByText("2 more pushes running").waitFor();
		await waiting.getByText("15 more pushes waiting").waitFor();
		await waiting.getByText("23 more pushes given up").waitFor();
		await isAccessible(page, "more pushes than rows");
		far.waiting = 1;
		queue = { queue: some(1, { state: "waiting" }), given_up: [] };
		await waiting.getByText("more pushes").first().waitFor({ state: "detached" });
		await leave(page);
	},

	// What waits is shown however many are held before it, and what is held can be listed, kind by kind.
	async crowded(browser, url) {
		const status = await wellStatus(url);
		const row = (name, held) => ({ name, word: held ? "held" : "behind", state: "pending", lag: 1,
			held_reason: held ? "many refs would go" : null });
		const some = (letter, count, held) => [...Array(count).keys()].map((i) => row(letter + (10 + i), held));
		Object.assign(status.repositories, { pending: 20, held: 12 });
		const answer = (member) => (route) => {
			const state = new URL(route.request().url()).searchParams.get("state");
			route.fulfill({ json: { [member]: state === "waiting" ? some("w", 8, false) : some("h", 12, true) } });
		};
		const page = await open(browser, url, { mock: {
			"**/api/v1/status*": (route) => route.fulfill({ json: status }),
			"**/api/v1/repositories?*": answer("repositories"), "**/api/v1/blobs/*": answer("blobs") } });
		const waiting = page.locator("section", { has: page.locator("#waiting") });
		const held = page.locator("section", { has: page.locator("#held") });
		await held.getByText("h21", { exact: true }).waitFor();
		for (const name of ["w10", "w17"])
			await waiting.getByText(name, { exact: true }).waitFor();
		assert.equal(await waiting.getByText("All that wait").count(), 0);
		const tile = page.locator(".tile", { hasText: "waiting" });
		assert.equal(await tile.locator(".count").textContent(), "8");
		assert.equal(await tile.getAttribute("href"), "#/list/repository?state=waiting");
		Object.assign(status.repositories, { pending: 25 });
		await waiting.getByText("All that wait").waitFor();
		assert.equal(await held.getByText("All that are held").count(), 0);
		status.blobs = { lfs: { ...status.repositories, bytes: 1, held: 50 } };
		await held.getByText("All that are held: 12 repositories, 50 blobs of type lfs").waitFor();
		assert.equal(await held.getByRole("link", { name: "50 blobs" }).getAttribute("href"), "#/list/lfs?state=held");
		Object.assign(status.repositories, { held: 0 });
		await held.getByText("All that are held: 50 blobs of type lfs").waitFor();
		await isAccessible(page, "what is held and what waits");
		await visit(page, "#/list/repository?state=waiting");
		await sees(page, "tbody tr", "w10");
		assert.equal(await page.getByLabel("State").inputValue(), "waiting");
		await leave(page);
	},

	// What the node refuses to tell is not shown as nothing, and its reason and remedy are shown.
	async unread(browser, url, token, name) {
		const status = await wellStatus(url, token);
		status.remotes = [{ name: "far", waiting: 1, running: 0, failing: 0, given_up: 0, lag: 1 }];
		Object.assign(status.repositories, { held: 1, pending: 2 });
		const none = { failing: 0, stale: 0, all: 0, example: null, failure: null, remedy: null };
		status.mirrors = { ...none, all: 1, synced: 1, held: 0, lists: none, checkouts: none };
		let isRefused = true, isAway = false;
		const refuse = (route) => route.fulfill({ status: 503,
			json: { code: "LOCK_UNAVAILABLE", message: "the store is away", remedy: "start the store" } });
		const may = (route) => isRefused ? refuse(route) : route.continue();
		const page = await open(browser, url, { token, mock: {
			"**/api/v1/status*": (route) => isAway ? refuse(route) : route.fulfill({ json: status }),
			"**/api/v1/running": may, "**/api/v1/leases?*": may, "**/api/v1/repositories?*": may,
			"**/api/v1/push/queue?*": may, "**/api/v1/mirrors?*": may, "**/api/v1/lag?*": may,
			"**/api/v1/repositories/*/history": may } });
		const why = " could not be read: the store is away – start the store";
		for (const [section, what] of [["leases", "The leases"], ["held", "What is held"],
			["running", "What runs"], ["waiting", "What waits"], ["waiting", "The queue of pushes"],
			["mirrors", "The mirrors"], ["map", "The lag"]])
			await page.locator("section", { has: page.locator("#" + section) })
				.getByText(what + why).first().waitFor();
		assert.equal(await page.getByText("Nobody holds a lease now.").count(), 0);
		await isAccessible(page, "what could not be read");
		await visit(page, "#/item/repository/" + encodeURIComponent(name));
		await sees(page, "#history ~ .error", "The history" + why);
		await sees(page, "dd", "could not be read");
		isRefused = false;
		await page.getByText("could not be read").first().waitFor({ state: "detached" });
		await visit(page, "#/");
		await page.locator("section", { has: page.locator("#leases") }).locator("tbody tr").first().waitFor();
		// Not there, as with another role, is no failure: it pushes nowhere.
		assert.equal(await page.getByText("could not be read").count(), 0);
		isAway = true;
		await sees(page, "#away", /only answers with an error since .*: the store is away – start the store\. This/);
		assert.match(await page.title(), /^\? /);
		isAway = false;
		await page.waitForFunction(() => document.getElementById("away").textContent === "");
		await leave(page);
	},

	// A screen reader hears of another state, not of each age that grows.
	async told(browser, url) {
		const status = { ...await wellStatus(url), sentence: "well since 1 s" };
		const page = await open(browser, url, { mock: {
			"**/api/v1/status*": (route) => route.fulfill({ json: status }) } });
		const says = (told) => page.waitForFunction(([shown, heard]) =>
			document.getElementById("sentence").textContent === shown &&
			document.getElementById("told").textContent === heard, [status.sentence, told]);
		await sees(page, "#sentence", "");
		await says("well since 1 s");
		status.sentence = "well since 2 s";
		await says("well since 1 s");
		assert.equal(await has(page, "main [aria-live], main [role=status]"), 0);
		Object.assign(status, { sentence: "behind by 1 s", in_sync: false, reason: "not_synced" });
		await says("behind by 1 s");
		status.sentence = "behind by 2 s";
		await says("behind by 1 s");
		Object.assign(status, { sentence: "silent", reason: "primary_silent" });
		await says("silent");
		await leave(page);
	},

	// A page of rows is turned once before the answer; "." is searched for as it is.
	async turning(browser, url) {
		const status = await wellStatus(url);
		const waits = [], asked = [];
		let isSlow = false;
		const page = await open(browser, url + "/#/list/repository", { mock: {
			"**/api/v1/status*": (route) => route.fulfill({ json: status }),
			"**/api/v1/repositories?*": (route) => {
				const words = new URL(route.request().url()).searchParams;
				const after = words.get("after") || "a";
				if (words.get("search"))
					asked.push(words.get("search"));
				const next = String.fromCharCode(after.charCodeAt(0) + 1);
				const answer = () => route.fulfill({ json: { next,
					repositories: [{ name: "row " + after, word: "held", lag: 1 }] } });
				return isSlow && after !== "a" ? waits.push(answer) : answer();
			} } });
		await sees(page, "tbody tr", "row a");
		isSlow = true;
		await page.evaluate(() => {
			const next = [...document.querySelectorAll("button")].find((one) => one.textContent === "Next");
			next.click();
			next.click();
		});
		await sees(page, ".buttons", "Page 2");
		for (const name of ["Next", "Previous"])
			assert(await page.getByRole("button", { name }).isDisabled(), name);
		while (!waits.length)
			await sleep(20);
		isSlow = false;
		waits.forEach((answer) => answer());
		await sees(page, "tbody tr", "row b");
		await page.getByRole("button", { name: "Next" }).click();
		await sees(page, "tbody tr", "row c");
		await sees(page, ".buttons", "Page 3");
		await page.getByLabel("Search").fill(".");
		while (!asked.length)
			await sleep(20);
		assert.equal(asked[0], ".");
		assert.equal(await page.evaluate(() => location.hash), "#/list/repository?search=.");
		await leave(page);
	},

	// Commands to paste, for names that are options or more commands if nothing is done.
	async pasted(browser, url, token) {
		const none = { failing: 0, stale: 0, all: 0, example: null, failure: null, remedy: null };
		const status = await wellStatus(url, token), model = await apiRow(url, token, "team/app");
		const rows = (...some) => some.map(([name, gone]) =>
			({ ...model, name, gone, word: "held", held_reason: "too many" }));
		status.blobs = { uploads: { ...status.repositories, held: 1 } };
		status.repositories.held = 2;
		status.mirrors = { ...none, all: 2, synced: 0, held: 2, lists: none, checkouts: none };
		const page = await open(browser, url, { token, mock: {
			"**/api/v1/status*": (route) => route.fulfill({ json: status }),
			"**/api/v1/repositories?state=held*": { repositories: rows(["--all", true], ["a;b", false]) },
			"**/api/v1/blobs/uploads?state=held*": { blobs: rows(["--all", true]) },
			"**/api/v1/mirrors?*": { mirrors: rows(["-f", true], ["it's", false]).map((row) =>
				({ ...row, url: null, watchers: [], remedy: null })) },
		} });
		const held = page.locator("section", { has: page.locator("#held") });
		await held.locator("code").nth(4).waitFor();
		assert.deepStrictEqual((await held.locator("code").allTextContents()).sort(), [
			"refrelay blob remove --type uploads -- --all",
			"refrelay mirror remove -- -f",
			"refrelay mirror sync --force 'it'\\''s'",
			"refrelay repository remove -- --all",
			"refrelay repository sync --force 'a;b'",
		]);
		await leave(page);
	},

	// A held row is let go in two steps; the second says what is lost.
	async release(browser, url, token, name) {
		const page = await open(browser, url, { token });
		const held = page.locator("section", { has: page.locator("#held") });
		const row = held.locator("li", { has: page.getByText(name, { exact: true }) });
		await row.getByRole("button", { name: "Release…" }).click();
		const dialog = page.getByRole("dialog");
		await dialog.getByText(name, { exact: true }).waitFor();
		await dialog.getByText(/are lost/).waitFor();
		await isAccessible(page, "dialog");
		assert.equal(await dialog.locator(":focus").textContent(), "Cancel");
		await dialog.getByRole("button", { name: "Cancel" }).click();
		assert.equal((await apiRow(url, token, name)).word, "held");
		await row.getByRole("button", { name: "Release…" }).click();
		await dialog.getByRole("button", { name: "Release", exact: true }).click();
		await row.waitFor({ state: "detached" });
		await leave(page);
	},

	// The node goes, and comes back.
	async away(browser, url, stop, start) {
		const page = await open(browser, url);
		await sees(page, "#sentence", "");
		execFileSync("bash", ["-c", stop]);
		await sees(page, "#away", "does not answer since");
		assert.equal(await page.locator("#sentence").count(), 1, "what was known stays");
		assert.match(await page.title(), /^\? /);
		execFileSync("bash", ["-c", start]);
		await page.waitForFunction(() => document.getElementById("away").textContent === "");
		await page.waitForFunction(() => !document.title.startsWith("? "));
		await leave(page);
	},

	// Very many rows: a page of them at a time, and no long tasks; one may have been kept from
	// the processor.
	async many(browser, url, last) {
		const page = await open(browser, url);
		await sees(page, ".tile .count", /10,0\d\d/);
		await visit(page, "#/list/repository");
		await page.waitForFunction(() => document.querySelectorAll("tbody tr").length === 100);
		for (let turn = 2; turn < 5; turn++) {
			await page.getByRole("button", { name: "Next" }).click();
			await sees(page, ".buttons", "Page " + turn);
			await page.waitForFunction(() => document.querySelectorAll("tbody tr").length === 100);
		}
		await page.getByRole("button", { name: "Previous" }).click();
		await sees(page, ".buttons", "Page 3");
		await page.getByLabel("Search").fill(last);
		await page.waitForFunction((shown) => {
			const rows = [...document.querySelectorAll("tbody tr")];
			return rows.length === 1 && rows[0].textContent.includes(shown);
		}, last);
		const found = await page.evaluate(() => ({ tasks: window.tasks,
			elements: document.querySelectorAll("*").length }));
		console.log("long tasks in ms: " + found.tasks.map(Math.round).join(" "));
		const long = found.tasks.filter((ms) => ms >= LONGEST_TASK);
		assert(long.length <= 1, "tasks took " + long.join(" and ") + " ms");
		assert(found.elements < 3000);
		await leave(page);
	},

	// Names that would be markup, turn the line around, or never end.
	async hostile(browser, url, file) {
		const names = JSON.parse(fs.readFileSync(file, "utf8"));
		for (const phone of [false, true]) {
			const page = await open(browser, url + "/#/list/repository?search=hostile", { phone });
			await page.waitForFunction((count) => document.querySelectorAll("tbody tr").length === count,
				names.length);
			const shown = await page.evaluate(() => [...document.querySelectorAll("tbody bdi.name")].map(
				(element) => [element.textContent, element.title, getComputedStyle(element).unicodeBidi]));
			assert.deepStrictEqual(shown.map(([text]) => text).sort(), [...names].sort());
			for (const [text, title, bidi] of shown) {
				assert.equal(title, text);
				assert.equal(bidi, "isolate");
			}
			await isNarrow(page, "hostile names");
			for (const name of phone ? names : []) {
				await visit(page, "#/item/repository/" + encodeURIComponent(name));
				await page.waitForFunction((text) =>
					document.querySelector("h1").textContent === text &&
					document.querySelector("main").textContent.includes("Generations"), name);
				await isNarrow(page, name.slice(0, 40));
			}
			assert.equal(await page.evaluate(() => window.harmed), undefined);
			await isAccessible(page, "hostile names");
			await leave(page);
		}
	},

	async phone(browser, url, token) {
		for (const dark of [false, true]) {
			const page = await open(browser, url, { phone: true, dark, token });
			await sees(page, "#sentence", "");
			await sees(page, "h2", "Leases");
			await isNarrow(page, "overview");
			await isAccessible(page, "overview on a phone");
			await visit(page, "#/list/repository");
			await sees(page, "tbody tr", "");
			await isNarrow(page, "list");
			await page.locator("tbody a").first().click();
			await sees(page, "main", "Generations");
			await isNarrow(page, "row");
			await isAccessible(page, "row on a phone");
			await leave(page);
		}
	},

	async curves(browser, url, text) {
		const page = await open(browser, url);
		await page.getByRole("img", { name: new RegExp(text) }).first().waitFor();
		assert(await page.locator("figure.curve polyline").first().evaluate(
			(line) => line.parentNode.querySelectorAll("polyline").length) >= 2, "a gap is a gap");
		await leave(page);
	},

	async pictures(browser, url, token) {
		let page = await open(browser, url, { token });
		await sees(page, "h2", "Leases");
		await picture(page, "page-light");
		await leave(page);
		page = await open(browser, url, { token, phone: true, dark: true });
		await sees(page, "h2", "Leases");
		await picture(page, "page-phone-dark");
		await leave(page);
	},
};

async function main([verb, ...rest]) {
	if (verb === "browser")
		return runBrowser(...rest);
	const browser = await chromium.connect(fs.readFileSync(process.env.BROWSER, "utf8"));
	try {
		await scenarios[verb](browser, ...rest);
	} finally {
		if (bad.length)
			console.log(bad.join("\n"));
		await browser.close();
	}
	assert.deepStrictEqual(bad, []);
}

main(process.argv.slice(2)).catch((error) => {
	console.log(error.stack);
	process.exitCode = 1;
});
