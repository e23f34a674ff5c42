// Package settings keeps the settings of each app: what its guests use, which is configuration
// values, secrets, and grants of hosts to send requests to, and the rules that bound its calls
// ([actor.Rules]). It implements host.Settings, host.Rules and egress.Grants.
//
// # What it promises
//
//   - A change is in the store when its method returns, and seen by this process at
//     once, by others on the same database within Config.MaxAge. So is a revocation.
//   - While the store does not answer, guests get the settings that were read less
//     than Config.MaxStale ago; after that they get none.
//   - The value of a secret leaves this package by [Service.Secret] alone. No list,
//     error or log contains it, and memory holds it sealed, except during the calls
//     that use it.
//
// # Secrets at rest
//
// A secret is stored sealed with AES-256-GCM, under the first key of the key file,
// with that key's ID beside it:
//
//	"GRS1" | key ID, 8 bytes | nonce, 12 bytes | ciphertext
//
// App and name are authenticated with it, so that a row copied to another name does
// not open. The seal protects secrets from a reader of the database, of its backups or
// of its traffic who does not have the key file. It does not protect them from those who
// run code in the server, or may deploy a module to the app. Every server of one
// database needs the same keys.
//
// To rotate: put a new key first in the file, keep the old one below it, and restart
// the servers. Each server calls [Service.Reseal] when it starts, which seals the
// secrets of the old key with the new one; then the old key can be removed. A server
// without the new key cannot read those secrets: if there are several servers, give all
// of them the new key as the second one before it becomes the first.
package settings
