// Package grants keeps what each app was given for its guests to use:
// configuration values, secrets, and hosts to send requests to. It implements
// host.Grants and egress.Grants.
//
// # What it promises
//
//   - A change is in the store when its method returns, and seen by this process at
//     once, by others on the same database within Config.MaxAge. So is a revocation.
//   - While the store does not answer, what was read less than Config.MaxStale ago
//     goes on being given; after that nothing is.
//   - The value of a secret leaves this package by [Service.Secret] alone. It is in no
//     list, error or log, and in memory only sealed, outside of the calls that use it.
//
// # Secrets at rest
//
// A secret is stored sealed with AES-256-GCM, under the first key of the key file,
// with that key's ID beside it:
//
//	"GRS1" | key ID, 8 bytes | nonce, 12 bytes | ciphertext
//
// App and name are authenticated with it, so that a row copied to another name does
// not open. It protects from whoever reads the database, its backups or its traffic,
// and does not have the key file; not from whoever runs code in the server, or may
// deploy a module to the app. Every server of one database needs the same keys.
//
// To rotate: put a new key first in the file, keep the old one below it, and restart
// the servers. [Service.Reseal], which a server does when it starts, seals what the
// old key has sealed with the new one; then the old key can be taken out. A server
// that does not have the new key yet cannot read what was sealed again: where there
// are several, all get it as a second key before it becomes the first.
package grants
