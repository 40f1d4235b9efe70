// Pi's own projection, one session a line: {entries, leaf} in, the messages for a model out; with `migrate` of a file of an
// older version, header and all; with `wire` what an OpenAI-compatible server receives. Run with Node, given Pi's folder.
import { createInterface } from "node:readline";
import { pathToFileURL } from "node:url";

const pi = await import(pathToFileURL(`${process.argv[2]}/dist/index.js`).href);
const { convertMessages } = await import(pathToFileURL(`${process.argv[2]}/../pi-ai/dist/api/openai-completions.js`).href);
const model = { provider: "p", api: "a", id: "m", input: ["text"] };
for await (const line of createInterface({ input: process.stdin })) {
	const { entries, leaf, wire, migrate } = JSON.parse(line);
	if (migrate) pi.migrateSessionEntries(entries);
	const held = migrate ? entries.filter((entry) => entry.type !== "session") : entries;
	const seen = pi.convertToLlm(pi.buildSessionContext(held, leaf ?? undefined).messages);
	const messages = wire ? convertMessages(model, { messages: seen }, {}) : seen;
	process.stdout.write(`${JSON.stringify(messages).replace(/[\u007f-\uffff]/g, (c) => `\\u${c.charCodeAt(0).toString(16).padStart(4, "0")}`)}\n`);
}
