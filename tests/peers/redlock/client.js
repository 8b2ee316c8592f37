// A client of node-redlock, in the version that the first word says. It takes a lock, says "held",
// waits until the file is gone, gives it back, and says "released"; or else "refused", "not ours".
//
// usage: node client.js redlock4|redlock5 FILE KEY TTL_MS TRIES SOCKET...
'use strict'
const fs = require('fs')
const Redis = require('ioredis')

const [version, file, key, ttl, tries, ...sockets] = process.argv.slice(2)
const module_ = require(version)
const Redlock = module_.default || module_
const clients = sockets.map(socket => new Redis(socket))
const redlock = new Redlock(clients, { retryCount: Number(tries) - 1, retryDelay: 100, retryJitter: 50 })
const sleep = ms => new Promise(resolve => setTimeout(resolve, ms))

async function take () {
  return module_.default ? redlock.acquire([key], Number(ttl)) : redlock.lock(key, Number(ttl))
}

async function giveBack (lock) {
  return module_.default ? lock.release() : lock.unlock()
}

async function main () {
  const lock = await take().catch(() => null)
  if (!lock) return 'refused'
  console.log('held')
  while (fs.existsSync(file)) await sleep(10)
  return giveBack(lock).then(() => 'released', () => 'not ours')
}

redlock.on(module_.default ? 'error' : 'clientError', () => {}) // one server's: the majority decides
main().then(said => {
  console.log(said)
  clients.forEach(client => client.disconnect())
})
