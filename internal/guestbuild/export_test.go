package guestbuild

// CargoStatus is what [Probe] finds of cargo where the distribution's folder is another.
var CargoStatus = cargoStatus
