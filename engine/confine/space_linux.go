package confine

import "golang.org/x/sys/unix"

// keepSmallPages keeps the kernel from giving a guest that touches a byte two
// megabytes. Where it cannot, guests cost more and work.
func keepSmallPages(data []byte) { _ = unix.Madvise(data, unix.MADV_NOHUGEPAGE) }
