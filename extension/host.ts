/**
 * Host: what Python may ask of Pi. One entry a method; each answers for the context that the call names.
 *
 * Whatever Pi older than 1.6 may lack is looked for before it is used.
 */
import { existsSync, readFileSync, realpathSync } from "node:fs";
import { dirname, join } from "node:path";
import type { ExtensionAPI, ExtensionContext, SessionEntry } from "@earendil-works/pi-coding-agent";
import type { Params } from "./bridge.ts";

export type Level = "info" | "warning" | "error";
type Method = (ctx: ExtensionContext, params: Params) => unknown;
type SessionManager = ExtensionContext["sessionManager"];

/** The context is gone: its session was replaced. Python gives up what it wanted to ask. */
export const GONE = -32001;
export const UNKNOWN_METHOD = -32601;
const STATUS = "machine";
const version = piVersion();

/** The methods by name. `reloadProviders` registers what the providers file holds now. */
export function hostMethods(pi: ExtensionAPI, reloadProviders: () => string[]): Record<string, Method> {
	return {
		"ui.select": (ctx, p) => ctx.ui.select(text(p.title), p.options as string[]),
		"ui.confirm": (ctx, p) => ctx.ui.confirm(text(p.title), text(p.message)),
		"ui.input": (ctx, p) => ctx.ui.input(text(p.title), text(p.placeholder)),
		"ui.editor": (ctx, p) => ctx.ui.editor(text(p.title), text(p.prefill)),
		"ui.notify": (ctx, p) => say(ctx, text(p.message), p.level as Level),
		"ui.setStatus": (ctx, p) => setStatus(ctx, p.text as string | null),
		"ui.setWidget": (ctx, p) => ctx.ui.setWidget(STATUS, (p.lines as string[] | null) ?? undefined),
		"report.show": (ctx, p) => {
			say(ctx, text(p.text), p.level as Level);
			if (!ctx.hasUI && p.exitCode) process.exitCode = p.exitCode as number;
		},
		"session.info": (ctx) => ({
			id: ctx.sessionManager.getSessionId(),
			file: ctx.sessionManager.getSessionFile() ?? null,
			leaf: ctx.sessionManager.getLeafId(),
			answer: lastAnswer(ctx.sessionManager),
			cwd: ctx.cwd,
			mode: ctx.mode ?? null,
			hasUI: ctx.hasUI,
			idle: ctx.isIdle(),
			model: ctx.model ? { provider: ctx.model.provider, id: ctx.model.id } : null,
			piVersion: version,
		}),
		"session.branch": (ctx) => ctx.sessionManager.getBranch(),
		"pi.systemPrompt": (ctx) => ctx.getSystemPrompt(),
		"pi.tools": () => {
			const active = new Set(pi.getActiveTools());
			const tools = pi.getAllTools().filter((tool) => active.has(tool.name));
			return tools.map(({ name, description, parameters }) => ({ name, description, parameters }));
		},
		"pi.registerProviders": () => reloadProviders(),
	};
}

/** Shows `message` where the user looks: Pi's chat, or stderr where Pi has no UI, so that stdout stays the model's. */
export function say(ctx: ExtensionContext, message: string, level: Level = "info"): void {
	if (!ctx.hasUI) process.stderr.write(`${message}\n`);
	else if (ctx.mode === "tui" && level === "info") ctx.ui.notify(readable(ctx, message), level);
	else ctx.ui.notify(message, level);
}

/** Pi dims what is not a warning. A report is there to be read: an empty dim span ends Pi's own, then each line is coloured. */
function readable({ ui: { theme } }: ExtensionContext, message: string): string {
	const [title = "", ...lines] = message.split("\n");
	const coloured = lines.map((line) => theme.fg(line.startsWith("Next: ") ? "accent" : "text", line));
	return [theme.fg("dim", "") + theme.bold(theme.fg("text", title)), ...coloured].join("\n");
}

/** Shows a long job's latest line: in the footer, in place of the one before, or on stderr. */
export function showProgress(ctx: ExtensionContext, line: string): void {
	if (ctx.hasUI) setStatus(ctx, line);
	else say(ctx, line);
}

export function setStatus(ctx: ExtensionContext, status: string | null | undefined): void {
	ctx.ui.setStatus(STATUS, status || undefined);
}

function text(value: unknown): string {
	return typeof value === "string" ? value : "";
}

/** The entry of the latest assistant message after the last user message, if there is one. */
function lastAnswer(session: SessionManager): { id: string; stopReason: string } | null {
	let entry: SessionEntry | undefined = session.getLeafEntry();
	while (entry && !(entry.type === "message" && entry.message.role === "user")) {
		if (entry.type === "message" && entry.message.role === "assistant") {
			return { id: entry.id, stopReason: entry.message.stopReason };
		}
		entry = entry.parentId ? session.getEntry(entry.parentId) : undefined;
	}
	return null;
}

/** Pi's version, from the package.json above its script; null where there is none to read (an embedded Pi). */
function piVersion(): string | null {
	try {
		for (let folder = dirname(realpathSync(process.argv[1] ?? "")); folder !== dirname(folder); folder = dirname(folder)) {
			const manifest = join(folder, "package.json");
			if (!existsSync(manifest)) continue;
			const { name, version } = JSON.parse(readFileSync(manifest, "utf8")) as { name?: string; version?: string };
			if (name?.endsWith("/pi-coding-agent")) return version ?? null;
		}
	} catch {}
	return null;
}
