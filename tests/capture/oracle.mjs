// Pi's own projection, one session a line: {entries, leaf} in, the messages for a model out, and with `wire` what an
// OpenAI-compatible server receives. Run with Node, given Pi's folder.
import { createInterface } from "node:readline";
import { pathToFileURL } from "node:url";

const pi = await import(pathToFileURL(`${process.argv[2]}/dist/index.js`).href);
const { convertMessages } = await import(pathToFileURL(`${process.argv[2]}/../pi-ai/dist/api/openai-completions.js`).href);
const model = { provider: "p", api: "a", id: "m", input: ["text"] };
for await (const line of createInterface({ input: process.stdin })) {
	const { entries, leaf, wire } = JSON.parse(line);
	const seen = pi.convertToLlm(pi.buildSessionContext(entries, leaf).messages);
	const messages = wire ? convertMessages(model, { messages: seen }, {}) : seen;
	process.stdout.write(`${JSON.stringify(messages).replace(/[\u007f-\uffff]/g, (c) => `\\u${c.charCodeAt(0).toString(16).padStart(4, "0")}`)}\n`);
}
