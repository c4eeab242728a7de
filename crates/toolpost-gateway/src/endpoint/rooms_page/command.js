// Commands of the message field, with the syntax of `toolpost room join`.
import { parseExact } from "../docs/json.js";

/** The participant that provides the operations of the gateway. */
export const TOOLPOST = "toolpost";

/** The commands: name, arguments and description. */
const COMMANDS = [
  ["/call", "[@PARTICIPANT] TOOL [JSON | key=value …]", "call a tool"],
  ["/propose", "[@PARTICIPANT] TOOL [JSON | key=value …]", "propose a call for others to approve"],
  ["/to", "PARTICIPANT TEXT", "address a message to a participant; every participant receives it"],
  ["/help", "", "list the commands"],
];

/**
 * What a line means: `{kind, fields}` of the message to send, or `{notes}` to show. `//` starts a chat
 * message with a literal `/`. Throws an error for a command that is not sent.
 */
export function parseLine(line) {
  const trimmed = line.trim();
  if (!trimmed.startsWith("/")) return chat(line);
  if (trimmed.startsWith("//")) return chat(trimmed.slice(1));
  const [name, rest] = splitFirstWord(trimmed);
  const command = COMMANDS.find(([known]) => known === name);
  if (!command) {
    throw new Error(
      `Not sent: unknown command ${name}. /help lists the commands; to send text that starts with /, write //.`,
    );
  }
  if (name === "/help") return { notes: COMMANDS.map((parts) => parts.filter(Boolean).join(" ")) };
  const parsed = name === "/to" ? addressedChat(rest) : toolCall(name, rest);
  if (!parsed) throw new Error(`Not sent; usage: ${command[0]} ${command[1]}`);
  return parsed;
}

function chat(text) {
  return { kind: "chat", fields: { payload: { text, format: "plain" } } };
}

function addressedChat(rest) {
  const [participant, text] = splitFirstWord(rest);
  if (!text) return null;
  const { kind, fields } = chat(text);
  return { kind, fields: { to: [participant], ...fields } };
}

function toolCall(command, rest) {
  const [first, after] = splitFirstWord(rest);
  const hasParticipant = first.startsWith("@");
  const [name, text] = hasParticipant ? splitFirstWord(after) : [first, after];
  if (!name) return null;
  const to = [hasParticipant ? first.slice(1) : TOOLPOST];
  const payload = { method: "tools/call", params: { name, arguments: parseArguments(text) } };
  return { kind: command === "/call" ? "mcp/request" : "mcp/proposal", fields: { to, payload } };
}

function parseArguments(text) {
  if (text.startsWith("{")) {
    try {
      return parseExact(text);
    } catch (error) {
      throw new Error(`Not sent: the arguments are not JSON: ${error.message}`);
    }
  }
  return Object.fromEntries(splitWords(text).map(parseArgument));
}

/** A value is JSON or else a string; a quoted value is always a string. */
function parseArgument(word) {
  const end = word.indexOf("=");
  if (end < 1) throw new Error(`Not sent: "${word}" is not key=value; use key=value or JSON.`);
  const value = word.slice(end + 1);
  try {
    return [word.slice(0, end), parseExact(value)];
  } catch {
    return [word.slice(0, end), value];
  }
}

/** Splits at white space outside of quotation marks. */
function splitWords(text) {
  if (text.replace(/"(?:[^"\\]|\\.)*"/g, "").includes('"')) {
    throw new Error("Not sent: missing closing quotation mark.");
  }
  return text.match(/(?:[^\s"]|"(?:[^"\\]|\\.)*")+/g) ?? [];
}

function splitFirstWord(text) {
  const [, word, rest] = text.match(/^(\S*)\s*([^]*)$/);
  return [word, rest];
}
