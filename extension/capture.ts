/**
 * Capture: what Python needs in order to keep turns unasked, and to see what came of those on trial, all of it in one message,
 * since Pi may be gone when Python reads it. What is kept, and whether, Python decides; `auto.json` and `students.json`, which
 * it writes, only say where asking it is worth while, so that nobody else pays for it.
 */
import { existsSync, readFileSync, realpathSync } from "node:fs";
import { join, sep } from "node:path";
import type { ExtensionAPI, ExtensionContext } from "@earendil-works/pi-coding-agent";
import type { Peer } from "./bridge.ts";
import { activeTools, sessionInfo } from "./host.ts";
import { machineHome } from "./python.ts";
import { isOnTrial } from "./students.ts";

/** Whether automatic capture is on for a project that `cwd` lies in. */
export function captures(cwd: string): boolean {
	const path = join(machineHome(), "auto.json");
	try {
		if (!existsSync(path)) return false;
		const { version, projects } = JSON.parse(readFileSync(path, "utf8")) as { version: number; projects: string[] };
		const here = join(realpathSync(cwd), sep);
		return version === 1 && projects.some((root) => here.startsWith(join(root, sep)));
	} catch {
		return false; // damaged, or the folder is gone: the next `/machine auto on` writes it anew
	}
}

/** No person is at the terminal. An older Pi does not say its mode. */
export function isHeadless(ctx: ExtensionContext): boolean {
	return ctx.mode ? ctx.mode !== "tui" : !ctx.hasUI;
}

/** One session as it goes on, from where this Pi took it up. */
export class Capture {
	/** A compaction has taken place of which Python has not been told. */
	compacted = false;
	private readonly pi: ExtensionAPI;
	private since: string | null = null;
	private readonly sent = new Set<string>();
	private sentTo: Peer | undefined;

	constructor(pi: ExtensionAPI) {
		this.pi = pi;
	}

	begin(ctx: ExtensionContext): void {
		this.since = ctx.sessionManager.getLeafId();
	}

	/** Whether there are turns for Python to keep. */
	isDue(ctx: ExtensionContext): boolean {
		return (this.compacted || isHeadless(ctx)) && captures(ctx.cwd);
	}

	/** Whether there is something for Python to look at, be it only what came of a turn on trial. */
	isWatched(ctx: ExtensionContext): boolean {
		return isOnTrial(ctx.cwd) || this.isDue(ctx);
	}

	/**
	 * What `peer` is to look at: all but the session's entries, which it reads in the file, where there is one. `ended`: turns
	 * may have ended.
	 */
	params(ctx: ExtensionContext, peer: Peer | undefined, ended: boolean) {
		const due = ended && this.isDue(ctx);
		if (due) this.compacted = false;
		return {
			due,
			session: sessionInfo(ctx),
			headless: isHeadless(ctx),
			since: this.since,
			entries: ctx.sessionManager.getSessionFile() ? null : this.unsent(ctx, peer),
			systemPrompt: ctx.getSystemPrompt(),
			tools: activeTools(this.pi),
		};
	}

	private unsent(ctx: ExtensionContext, peer: Peer | undefined) {
		if (peer !== this.sentTo) this.sent.clear();
		this.sentTo = peer;
		const entries = ctx.sessionManager.getBranch().filter((entry) => !this.sent.has(entry.id));
		for (const entry of entries) this.sent.add(entry.id);
		return entries;
	}
}
