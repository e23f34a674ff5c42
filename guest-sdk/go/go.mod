module github.com/greenroom-run/greenroom/guest-sdk/go

go 1.25

require github.com/greenroom-run/greenroom/abi v0.1.0

replace github.com/greenroom-run/greenroom/abi => ../../abi
