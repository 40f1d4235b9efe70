/**
 * Host: what Python may ask of Pi. One entry a method; each answers for the context that the call names.
 *
 * Whatever Pi older than 1.6 may lack is looked for before it is used.
 */
import type { ExtensionAPI, ExtensionContext, SessionEntry } from "@earendil-works/pi-coding-agent";
import type { Params } from "./bridge.ts";

export type Level = "info" | "warning" | "error";
type Method = (ctx: ExtensionContext, params: Params) => unknown;
type SessionManager = ExtensionContext["sessionManager"];

/** The context is gone: its session was replaced. Python gives up what it wanted to ask. */
export const GONE = -32001;
export const UNKNOWN_METHOD = -32601;
const STATUS = "machine";

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
		"session.info": async (ctx) => ({
			id: ctx.sessionManager.getSessionId(),
			file: ctx.sessionManager.getSessionFile() ?? null,
			leaf: ctx.sessionManager.getLeafId(),
			answer: lastAnswer(ctx.sessionManager),
			cwd: ctx.cwd,
			mode: ctx.mode ?? null,
			hasUI: ctx.hasUI,
			idle: ctx.isIdle(),
			model: ctx.model ? { provider: ctx.model.provider, id: ctx.model.id } : null,
			piVersion: await piVersion(),
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
	if (ctx.hasUI) ctx.ui.notify(message, level);
	else process.stderr.write(`${message}\n`);
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

let version: Promise<string | null> | undefined;

/** Pi's version; null where Pi does not lend its module to extensions. */
function piVersion(): Promise<string | null> {
	version ??= import("@earendil-works/pi-coding-agent").then((module) => module.VERSION ?? null, () => null);
	return version;
}
