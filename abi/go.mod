module github.com/greenroom-run/greenroom/abi

go 1.25
