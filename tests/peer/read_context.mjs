// Prints what OpenClaw rebuilds from one stored session, as JSON: the branch, the session context, the model context.
// usage: OPENCLAW_STATE_DIR=... node read_context.mjs PEER_DIR STORE SESSION_KEY SESSION_ID AGENT
import { readFileSync, readdirSync, writeSync } from 'node:fs';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';

const [peerDir, storePath, sessionKey, sessionId, agentId] = process.argv.slice(2);

// The build puts a hash into the names of its files and short names on its exports, so the class is found by content.
async function findManager(dist) {
  const candidates = readdirSync(dist).filter(
    (file) => file.startsWith('session-manager-') && file.endsWith('.mjs')
      && readFileSync(join(dist, file), 'utf8').includes('class SessionManager'),
  );
  for (const file of candidates) {
    const exported = Object.values(await import(pathToFileURL(join(dist, file)).href));
    const manager = exported.find((item) => item?.name === 'SessionManager' && typeof item.open === 'function');
    if (manager) return manager;
  }
  throw new Error(`no session manager found in ${dist}`);
}

const where = { agentId, sessionId, sessionKey, storePath };
const manager = await findManager(join(peerDir, 'node_modules', 'openclaw', 'dist'));
const opened = manager.open(where);
const view = {
  branch: opened.getBranch().map(({ type, id }) => ({ type, id })),
  session: opened.buildSessionContext().messages,
  model: (await manager.openModelContextAsync(where)).buildSessionContext().messages,
};
const bytes = Buffer.from(JSON.stringify(view));
for (let done = 0; done < bytes.length;) done += writeSync(1, bytes, done);
process.exit(0); // the program keeps timers running
